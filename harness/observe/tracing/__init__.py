"""Tracing of commands to block devices: what each zone and each command went through."""
