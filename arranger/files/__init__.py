"""Files that anybody may have written: read within limits, and refused in one line."""
