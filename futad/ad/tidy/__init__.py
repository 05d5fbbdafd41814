"""Code of derivatives made lawful and small: dead code, copies, updates taken back."""
