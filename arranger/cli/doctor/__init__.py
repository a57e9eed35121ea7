"""What ``arranger doctor`` looks at: each check is a line, ok or how to mend it."""
