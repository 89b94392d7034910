"""The cage, tried from inside and looked at from outside."""
