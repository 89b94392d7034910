"""Tests of harness/gate."""
