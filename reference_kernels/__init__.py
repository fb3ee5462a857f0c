"""Kernels that run on real hardware, each with the schedule it executes."""
