"""The extenders of the configuration file: upstream's fields, and what does not go together."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from arranger.api.extenders import Extender, ExtenderTls
from arranger.daemon.config.extenders import ordered_extenders, parse_duration
from arranger.daemon.config.profiles import build_profiles
from arranger.daemon.config.schema import Config
from tests.builders import a_node, a_pod
from tests.unit.engine.harness import EngineHarness, placements

URL = "https://extender.example/v1"


def config(*extenders: dict[str, Any], **more: Any) -> Config:
    return Config.model_validate({"extenders": list(extenders), **more})


READ: dict[str, tuple[dict[str, Any], Extender]] = {
    "nothing but an address": ({"urlPrefix": URL}, Extender(URL, weight=0)),
    "everything": (
        {
            "urlPrefix": URL,
            "filterVerb": "f",
            "prioritizeVerb": "p",
            "preemptVerb": "e",
            "bindVerb": "b",
            "weight": 3,
            "enableHTTPS": True,
            "tlsConfig": {"caFile": "ca", "certFile": "c", "keyFile": "k", "serverName": "s"},
            "httpTimeout": "1m30s",
            "nodeCacheCapable": True,
            "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}],
            "ignorable": True,
        },
        Extender(
            url=URL,
            filter_verb="f",
            prioritize_verb="p",
            preempt_verb="e",
            bind_verb="b",
            weight=3,
            timeout=90.0,
            node_cache_capable=True,
            managed_resources=frozenset({"example.com/gpu"}),
            ignorable=True,
            tls=ExtenderTls(ca_file="ca", cert_file="c", key_file="k", server_name="s"),
        ),
    ),
    "HTTPS without an authority is not checked, as upstream": (
        {"urlPrefix": URL, "enableHTTPS": True},
        Extender(URL, weight=0, tls=ExtenderTls(insecure=True)),
    ),
    "no time at all means the default": (
        {"urlPrefix": URL, "httpTimeout": 0},
        Extender(URL, weight=0, timeout=5.0),
    ),
}


@pytest.mark.parametrize(("given", "expected"), READ.values(), ids=READ.keys())
def test_what_is_read(given: dict[str, Any], expected: Extender) -> None:
    assert ordered_extenders(config(given).extenders) == (expected,)


WRONG: dict[str, tuple[list[dict[str, Any]], str]] = {
    "an address without a scheme": ([{"urlPrefix": "extender:80"}], "urlPrefix"),
    "a weight of nought for one that prioritises": (
        [{"urlPrefix": URL, "prioritizeVerb": "p"}],
        "must have a positive weight",
    ),
    "two that bind": (
        [{"urlPrefix": URL, "bindVerb": "b"}, {"urlPrefix": URL, "bindVerb": "b"}],
        "2 implement bind; only one can",
    ),
    "a resource that two manage": (
        2 * [{"urlPrefix": URL, "managedResources": [{"name": "example.com/gpu"}]}],
        "managed twice: example.com/gpu",
    ),
    "a resource that is none of an extender's": (
        [{"urlPrefix": URL, "managedResources": [{"name": "cpu"}]}],
        "managedResources.0.name",
    ),
    "a resource of Kubernetes itself": (
        [{"urlPrefix": URL, "managedResources": [{"name": "kubernetes.io/batch"}]}],
        "is no extended resource",
    ),
    "a duration without a unit": ([{"urlPrefix": URL, "httpTimeout": "5"}], "is no duration"),
    "a certificate without its key": (
        [{"urlPrefix": URL, "tlsConfig": {"certFile": "c"}}],
        "certFile and keyFile go together",
    ),
    "a certificate within the file": (
        [{"urlPrefix": URL, "tlsConfig": {"caData": "LS0t"}}],
        "tlsConfig.caData",
    ),
}


@pytest.mark.parametrize(("given", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_is_refused(given: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        config(*given)


DURATIONS = {"5s": 5.0, "100ms": 0.1, "1m30s": 90.0, "1.5h": 5400.0, "2us": 2e-6}


@pytest.mark.parametrize(("text", "expected"), DURATIONS.items(), ids=DURATIONS.keys())
def test_durations_are_gos(text: str, expected: float) -> None:
    assert parse_duration(text) == pytest.approx(expected)


def test_those_that_may_fail_without_harm_are_asked_last() -> None:
    urls = [f"http://{name}" for name in "abc"]
    first = config(
        {"urlPrefix": urls[0], "ignorable": True}, *({"urlPrefix": url} for url in urls[1:])
    )
    assert [e.url for e in ordered_extenders(first.extenders)] == [urls[1], urls[2], urls[0]]


def test_resources_that_the_scheduler_is_to_ignore_do_not_keep_pods_from_nodes() -> None:
    resources = [
        {"name": "example.com/mine", "ignoredByScheduler": True},
        {"name": "example.com/ours"},
    ]
    profiles = build_profiles(config({"urlPrefix": URL, "managedResources": resources}))
    harness = EngineHarness(*profiles)
    harness.observe(a_node("n").offers(cpu=4))
    harness.observe(
        a_pod("mine").needs({"example.com/mine": 1}), a_pod("ours").needs({"example.com/ours": 1})
    )
    assert placements(harness.run()) == [("mine", "n")]
