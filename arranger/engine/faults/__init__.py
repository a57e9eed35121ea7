"""What becomes of an object that makes our own code raise: it is set aside, and hurts no other."""
