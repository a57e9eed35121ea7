"""What each verb of the API does to the store."""
