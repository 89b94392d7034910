"""Tests of harness/compiler."""
