"""CustomResourceDefinitions: schemas, pruning and CEL rules."""
