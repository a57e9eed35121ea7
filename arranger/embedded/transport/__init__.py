"""How requests reach the embedded server: in process, or over HTTP."""
