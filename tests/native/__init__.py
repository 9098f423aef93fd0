"""Tests of the native programs; a package, so that a name may occur in tests/unit as well."""
