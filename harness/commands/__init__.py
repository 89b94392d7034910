"""The commands: the layer that prints, exits and reads the environment. Each is imported when it is used."""
