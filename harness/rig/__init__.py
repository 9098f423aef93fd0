"""The emulated machine: image recipe, QEMU, QMP, boot and its end."""
