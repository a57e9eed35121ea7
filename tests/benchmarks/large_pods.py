"""Pods that a tenant may create, from a few numbers: what each part of them has, and how much.

A recipe says of each gene which of its values the pod has; those that are not named are the first.
Every pod made of one is legal: the API server's validation lets it through, up to its size.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.benchmarks.largest_objects import LARGEST, Manifest

HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
#: Claims of each kind that the tenant has.
CLAIMS: Final = 256

Recipe = Mapping[str, Any]
_COUNTS: Final = (0, 1, 8, 16, 64, 100, 300, 1000, 3000, 8000)
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_KEYS: Final = (HOST, ZONE, "number", "rack", "nowhere", "various")
#: Gene → its values, of which the first costs nothing.
GENES: Final[dict[str, tuple[Any, ...]]] = {
    "selector": _COUNTS,
    "selector labels": ("on all nodes", "various"),
    **{
        f"{side} {gene}": values
        for side in ("required", "preferred")
        for gene, values in (
            ("terms", _COUNTS),
            ("requirements", (1, *_COUNTS[2:])),
            ("values", (1, *_COUNTS[2:])),
            ("operator", (*_OPERATORS, "field")),
            ("key", _KEYS),
        )
    },
    **{f"affinity {side}": (0, 1, 4, 8, 16, 64) for side in ("near", "apart", "likes", "avoids")},
    "affinity requirements": (1, 2, 4, 16, 128),
    "affinity values": (1, 8, 64, 1000, 4000),
    "affinity operator": _OPERATORS[:4],
    "affinity key": (HOST, ZONE, "rack", "nowhere", "various"),
    "affinity of": ("own", "many", "all", "some", "but one", "expressions"),
    "affinity for": ("others", "all", "itself"),
    "spread hard": (0, 1, 4, 8, 16),
    "spread soft": (0, 1, 4, 8, 16),
    "spread requirements": (1, 2, 8, 128),
    "spread values": (1, 64, 1000, 8000),
    "spread operator": _OPERATORS[:4],
    "spread key": (HOST, ZONE, "rack", "various"),
    "spread taints": ("Ignore", "Honor"),
    "tolerations": _COUNTS,
    "toleration": ("of another key", "of another value", "of all"),
    "ports": _COUNTS,
    "containers": (1, *_COUNTS[2:]),
    "init containers": _COUNTS,
    "image": ("unknown", "everywhere", "various"),
    "resources": _COUNTS,
    "offered": (False, True),
    "disks": _COUNTS,
    "disk": ("gcePersistentDisk", "iscsi", "rbd", "awsElasticBlockStore", "azureDisk"),
    **{f"{kind} claims": (0, 1, 8, 64, CLAIMS) for kind in ("bound", "unbound", "static")},
    "ephemeral": (0, 1, 8, 64, 1000),
    "devices": (0, 1, 8, 64, CLAIMS),
    "labels": _COUNTS,
    "size": ("fits", "fits nowhere", "evicts", "is too large"),
    "features": (False, True),
}


def random_step(recipe: Recipe, rng: random.Random) -> dict[str, Any]:
    """A recipe that differs from one in a few genes."""
    changed = dict(recipe)
    for _ in range(rng.choice((1, 1, 2, 3))):
        gene = rng.choice(list(GENES))
        values = GENES[gene]
        at = values.index(changed.get(gene, values[0]))
        near = [each for each in (at - 1, at + 1) if 0 <= each < len(values)]
        changed[gene] = values[rng.choice(near)] if rng.random() < 0.5 else rng.choice(values)
    return {gene: value for gene, value in changed.items() if value != GENES[gene][0]}


def single_genes() -> Iterator[dict[str, Any]]:
    """Recipes that have much of one thing only, in each of its forms."""
    forms = {
        **{f"{side} terms": (f"{side} operator", f"{side} key") for side in _NODE_SIDES},
        **{f"{side} requirements": (f"{side} operator", f"{side} key") for side in _NODE_SIDES},
        **{f"affinity {side}": ("affinity operator", "affinity of") for side in _POD_SIDES},
        "spread hard": ("spread operator", "spread key"),
        "spread soft": ("spread operator", "spread key"),
        "disks": ("disk", "size"),
        "containers": ("image", "size"),
        "resources": ("offered", "size"),
        "tolerations": ("toleration", "spread taints"),
    }
    for gene, values in GENES.items():
        if not isinstance(values[-1], int) or isinstance(values[-1], bool):
            continue
        one, other = forms.get(gene, ("size", "size"))
        for form in GENES[one]:
            for second in GENES[other]:
                extra = {f"{gene.split()[0]} terms": 1} if gene.endswith("requirements") else {}
                for value in (values[-1], values[len(values) // 2]):
                    yield {**extra, gene: value, one: form, other: second}


_NODE_SIDES: Final = ("required", "preferred")
_POD_SIDES: Final = ("near", "apart", "likes", "avoids")


def made(recipe: Recipe, name: str) -> Manifest | None:
    """The pod of a recipe; None if the API server would refuse one so large."""
    genes = {gene: values[0] for gene, values in GENES.items()} | dict(recipe)
    if _entries(genes) > LARGEST // 20:
        return None
    labels = {f"label-{n}": "x" for n in range(genes["labels"])} | {"app": "large"}
    meta = {"name": name, "namespace": "theirs", "uid": name, "resourceVersion": "1"}
    manifest = {"metadata": {**meta, "labels": labels}, "spec": _spec(genes)}
    return manifest if len(json.dumps(manifest)) <= LARGEST else None


def _entries(genes: Recipe) -> int:
    """About how many entries its largest lists have."""
    node = sum(
        genes[f"{side} terms"] * genes[f"{side} requirements"] * genes[f"{side} values"]
        for side in _NODE_SIDES
    )
    pods = sum(genes[f"affinity {side}"] for side in _POD_SIDES)
    spread = genes["spread hard"] + genes["spread soft"]
    near = pods * genes["affinity requirements"] * genes["affinity values"]
    return int(node + near + spread * genes["spread requirements"] * genes["spread values"])


def _spec(genes: Recipe) -> Manifest:
    spec: Manifest = {"schedulerName": "arranger", "tolerations": _tolerations(genes)}
    spec["containers"] = [
        {"name": f"c{n}", "image": _image(genes, n)} for n in range(1, 1 + genes["containers"])
    ]
    spec["initContainers"] = [
        {"name": f"i{n}", "image": _image(genes, n)} for n in range(genes["init containers"])
    ]
    requests = {
        (f"example.com/offered-{n % 16}" if genes["offered"] else f"example.com/r{n}"): "1"
        for n in range(genes["resources"])
    }
    match genes["size"]:
        case "fits nowhere":
            requests["memory"] = "200Gi"
        case "evicts":
            requests["memory"], spec["priority"] = "200Gi", 1000
        case "is too large":
            requests["memory"] = "2000Gi"
        case _:
            requests["memory"] = "1Mi"
    first = spec["containers"][0]
    first["resources"] = {"requests": requests}
    first["ports"] = [{"containerPort": 1, "hostPort": 20_000 + n} for n in range(genes["ports"])]
    if genes["features"]:
        spec["hostNetwork"], spec["hostUsers"] = True, False
    every = genes["selector labels"] == "on all nodes"
    spec["nodeSelector"] = {
        (f"common-{n % 20}" if every else f"k{n}"): "x" for n in range(genes["selector"])
    }
    spec["affinity"] = {
        "nodeAffinity": _node_affinity(genes),
        "podAffinity": _pod_affinity(genes, "near", "likes"),
        "podAntiAffinity": _pod_affinity(genes, "apart", "avoids"),
    }
    spec["topologySpreadConstraints"] = [
        _spread(genes, n, when) for when in ("hard", "soft") for n in range(genes[f"spread {when}"])
    ]
    spec["volumes"] = list(_volumes(genes))
    spec["resourceClaims"] = [
        {"name": f"d{n}", "resourceClaimName": f"devices-{n}"} for n in range(genes["devices"])
    ]
    return spec


def _image(genes: Recipe, n: int) -> str:
    kind = genes["image"]
    return {"unknown": "i", "everywhere": "common-0:v1", "various": f"common-{n % 30}:v1"}[kind]


def _tolerations(genes: Recipe) -> list[Manifest]:
    made: Manifest = {
        "of another key": {"operator": "Exists"},
        "of another value": {"key": "gpu", "operator": "Equal"},
        "of all": {"operator": "Exists"},
    }[genes["toleration"]]
    form = genes["toleration"]
    several = [
        {**made, **({"key": f"k{n}"} if form == "of another key" else {"value": f"v{n}"})}
        for n in range(genes["tolerations"])
    ]
    if form == "of all":
        return [{**made, "tolerationSeconds": n} for n in range(genes["tolerations"])]
    return several


def _key(kind: str, n: int) -> str:
    return f"common-{n % 20}" if kind == "various" else kind


def _values(operator: str, count: int, key: str, n: int) -> list[str]:
    if operator in ("Exists", "DoesNotExist"):
        return []
    if operator in ("Gt", "Lt"):
        return [str(n if operator == "Gt" else 10**9 + n)]
    first = {HOST: "n", ZONE: "z", "rack": "r"}.get(key, "v")
    return [f"{first}{(n + i) % 20_000}" for i in range(count)]


def _node_affinity(genes: Recipe) -> Manifest:
    def term(side: str, n: int) -> Manifest:
        operator, key = genes[f"{side} operator"], genes[f"{side} key"]
        if operator == "field":
            every = range(genes[f"{side} requirements"])
            named = (
                {"key": "metadata.name", "operator": "NotIn", "values": [f"n{n}-{i}"]}
                for i in every
            )
            return {"matchFields": list(named)}
        return {
            "matchExpressions": [
                {
                    "key": (of := _key(key, n + i)),
                    "operator": operator,
                    "values": _values(operator, genes[f"{side} values"], of, n + i),
                }
                for i in range(genes[f"{side} requirements"])
            ]
        }

    affinity: Manifest = {}
    if genes["required terms"]:
        terms = [term("required", n) for n in range(genes["required terms"])]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
        {"weight": 1, "preference": term("preferred", n)} for n in range(genes["preferred terms"])
    ]
    return affinity


def _label_selector(genes: Recipe, part: str, n: int) -> Manifest:
    operator = genes[f"{part} operator"]
    mine = part == "affinity" and genes["affinity for"] == "itself"
    first = "large" if mine else "web-"
    return {
        "matchExpressions": [
            {
                "key": "app" if i == 0 or genes.get("affinity for") == "all" else f"label-{n}-{i}",
                "operator": operator if i == 0 else ("NotIn" if operator == "In" else operator),
                "values": []
                if operator in ("Exists", "DoesNotExist")
                else [
                    f"{first}{(n + v) if not mine or v else ''}"
                    for v in range(genes[f"{part} values"])
                ],
            }
            for i in range(genes[f"{part} requirements"])
        ]
    }


def _pod_affinity(genes: Recipe, hard: str, soft: str) -> Manifest:
    def term(n: int) -> Manifest:
        found: Manifest = {
            "topologyKey": _key(genes["affinity key"], n),
            "labelSelector": _label_selector(genes, "affinity", n),
        }
        match genes["affinity of"]:
            case "many":
                found["namespaces"] = [f"team-{i}" for i in range(200)]
            case "all":
                found["namespaceSelector"] = {}
            case "some":
                found["namespaceSelector"] = {"matchLabels": {"half": "a"}}
            case "but one":
                expression = {"key": "half", "operator": "NotIn", "values": [f"x{n}"]}
                found["namespaceSelector"] = {"matchExpressions": [expression]}
            case "expressions":
                expressions = [{"key": f"label-{i}", "operator": "DoesNotExist"} for i in range(10)]
                found["namespaceSelector"] = {"matchExpressions": expressions}
        return found

    preferred = [
        {"weight": 1 + n % 100, "podAffinityTerm": term(n)}
        for n in range(genes[f"affinity {soft}"])
    ]
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            term(n) for n in range(genes[f"affinity {hard}"])
        ],
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    }


def _spread(genes: Recipe, n: int, when: str) -> Manifest:
    return {
        "maxSkew": 1 + n,
        "topologyKey": _key(genes["spread key"], n),
        "whenUnsatisfiable": "DoNotSchedule" if when == "hard" else "ScheduleAnyway",
        "labelSelector": _label_selector(genes, "spread", n),
        "nodeTaintsPolicy": genes["spread taints"],
    }


def _volumes(genes: Recipe) -> Iterator[Manifest]:
    kind = genes["disk"]
    identity = {"gcePersistentDisk": "pdName", "iscsi": "iqn", "awsElasticBlockStore": "volumeID"}
    for n in range(genes["disks"]):
        source: Manifest = {identity.get(kind, "diskName"): f"theirs-{n}"}
        if kind == "rbd":
            source = {"monitors": [f"m{i}" for i in range(10)], "image": f"theirs-{n}"}
        yield {"name": f"disk-{n}", kind: source}
    for of in ("bound", "unbound", "static"):
        for n in range(genes[f"{of} claims"]):
            yield {"name": f"{of}-{n}", "persistentVolumeClaim": {"claimName": f"{of}-{n}"}}
    for n in range(genes["ephemeral"]):
        yield {"name": f"ephemeral-{n}", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
