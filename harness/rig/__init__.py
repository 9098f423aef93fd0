"""The emulated machine: image recipe, QEMU, QMP, start and stop."""
