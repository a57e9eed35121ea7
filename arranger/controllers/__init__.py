"""Controllers on kopf: what people see of gangs, kept true to the pods; and jobs, made of pods.

A process of its own, because kopf owns its event loop. It talks to the scheduler through the API
only, and the scheduler does not wait for it: without it gangs are placed all the same.
"""
