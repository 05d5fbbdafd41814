"""Values in and out, the C compiler and what it builds, and the sides of devices that run on the host."""
