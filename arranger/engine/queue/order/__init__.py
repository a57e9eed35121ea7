"""Who is next: quota queues, jobs, namespaces and the rank of each entity."""
