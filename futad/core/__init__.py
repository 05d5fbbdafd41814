"""The core IR: what it is made of, its text, its types, its interpreter, and what can be said of it."""
