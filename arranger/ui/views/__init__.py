"""What the pages show, as plain values: functions of the shadow's state that change nothing."""
