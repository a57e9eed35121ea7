"""Preemption for gang groups: who could be evicted, whom a plan evicts, and carrying it out."""
