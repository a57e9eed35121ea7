"""Kubernetes' expression language: ``device.driver == "gpu.example.com" && …``.

Reads, checks and evaluates expressions as ``cel-go`` does in Kubernetes, with its errors and its
units of cost. An evaluation can be left and gone on with after any step.
"""
