"""What goes with its owner, and what goes with its namespace."""

from __future__ import annotations

import pytest

from tests.api_conformance.client import Api, Object
from tests.api_conformance.objects import LEASES, a_lease, new_namespace
from tests.controlplane.harness import until


def owned_by(owner: Object, **more: bool) -> Object:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **more,
    }
    return {"ownerReferences": [reference]}


async def a_family(api: Api, path: str) -> None:
    """A parent with two children, one of which has a child of its own."""
    parent = await api.create(path, a_lease("parent"))
    children = [
        await api.create(
            path, a_lease(name, metadata=owned_by(parent, controller=True, blockOwnerDeletion=True))
        )
        for name in ("one", "two")
    ]
    await api.create(path, a_lease("grandchild", metadata=owned_by(children[0])))


async def all_gone(api: Api, path: str, *names: str) -> None:
    async def gone() -> bool:
        return not set(names) & set(await api.names(path))

    await until(gone, what=f"the end of {', '.join(names)}")


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_children_go_with_their_owner(api_with_controllers: Api, policy: str) -> None:
    api = api_with_controllers
    path = LEASES.format(await new_namespace(api))
    await a_family(api, path)
    await api.create(path, a_lease("stranger"))
    await api.delete(f"{path}/parent", {"propagationPolicy": policy})
    await all_gone(api, path, "parent", "one", "two", "grandchild")
    assert await api.names(path) == ["stranger"]


async def test_foreground_takes_the_owner_last(api_with_controllers: Api) -> None:
    api = api_with_controllers
    path = LEASES.format(await new_namespace(api))
    parent = await api.create(path, a_lease("parent"))
    held = owned_by(parent, blockOwnerDeletion=True) | {"finalizers": ["a.io/wait"]}
    made = await api.create(path, a_lease("child", metadata=held))
    version = made["metadata"]["resourceVersion"]
    async with api.watch(path, resourceVersion=version) as watch:
        going = await api.delete(f"{path}/parent", {"propagationPolicy": "Foreground"})
        assert going["metadata"]["finalizers"] == ["foregroundDeletion"]
        child = await watch.until("MODIFIED", "child")
        assert child["metadata"]["deletionTimestamp"]
        assert await api.names(path) == ["child", "parent"]
        await api.patch(f"{path}/child", {"metadata": {"finalizers": None}})
        await watch.until("DELETED", "child")
        await watch.until("DELETED", "parent")


async def test_an_owner_in_the_foreground_waits_for_grandchildren(
    api_with_controllers: Api,
) -> None:
    api = api_with_controllers
    path = LEASES.format(await new_namespace(api))
    parent = await api.create(path, a_lease("parent"))
    child = await api.create(
        path, a_lease("child", metadata=owned_by(parent, blockOwnerDeletion=True))
    )
    held = owned_by(child, blockOwnerDeletion=True) | {"finalizers": ["a.io/wait"]}
    made = await api.create(path, a_lease("grandchild", metadata=held))
    version = made["metadata"]["resourceVersion"]
    async with api.watch(path, resourceVersion=version) as watch:
        await api.delete(f"{path}/parent", {"propagationPolicy": "Foreground"})
        going = await watch.until("MODIFIED", "child")
        assert going["metadata"]["finalizers"] == ["foregroundDeletion"]
        await watch.until("MODIFIED", "grandchild")
        assert await api.names(path) == ["child", "grandchild", "parent"]
        await api.patch(f"{path}/grandchild", {"metadata": {"finalizers": None}})
        for name in ("grandchild", "child", "parent"):
            await watch.until("DELETED", name)


async def test_a_dependent_that_does_not_block_goes_while_its_owner_does(
    api_with_controllers: Api,
) -> None:
    api = api_with_controllers
    path = LEASES.format(await new_namespace(api))
    parent = await api.create(path, a_lease("parent"))
    held = owned_by(parent) | {"finalizers": ["a.io/wait"]}
    await api.create(path, a_lease("child", metadata=held))
    await api.delete(f"{path}/parent", {"propagationPolicy": "Foreground"})
    await all_gone(api, path, "parent")
    assert (await api.get(f"{path}/child"))["metadata"]["deletionTimestamp"]


async def test_owners_that_own_each_other_do_not_wait_for_ever(api_with_controllers: Api) -> None:
    api = api_with_controllers
    path = LEASES.format(await new_namespace(api))
    one = await api.create(path, a_lease("one"))
    two = await api.create(path, a_lease("two", metadata=owned_by(one, blockOwnerDeletion=True)))
    await api.patch(f"{path}/one", {"metadata": owned_by(two, blockOwnerDeletion=True)})
    await api.delete(f"{path}/one", {"propagationPolicy": "Foreground"})
    await all_gone(api, path, "one", "two")


async def test_a_finalizer_of_the_collector_alone_asks_for_the_foreground(
    api_with_controllers: Api,
) -> None:
    api = api_with_controllers
    path = LEASES.format(await new_namespace(api))
    parent = await api.create(
        path, a_lease("parent", metadata={"finalizers": ["foregroundDeletion"]})
    )
    held = owned_by(parent, blockOwnerDeletion=True) | {"finalizers": ["a.io/wait"]}
    made = await api.create(path, a_lease("child", metadata=held))
    version = made["metadata"]["resourceVersion"]
    async with api.watch(path, resourceVersion=version) as watch:
        await api.delete(f"{path}/parent")
        await watch.until("MODIFIED", "child")
        assert await api.names(path) == ["child", "parent"]
        await api.patch(f"{path}/child", {"metadata": {"finalizers": None}})
        await watch.until("DELETED", "parent")


async def test_an_owner_that_is_gone_is_forgotten_where_another_stays(
    api_with_controllers: Api,
) -> None:
    api = api_with_controllers
    path = LEASES.format(await new_namespace(api))
    owners = [await api.create(path, a_lease(name)) for name in ("one", "two")]
    both = [owned_by(owner)["ownerReferences"][0] for owner in owners]
    await api.create(path, a_lease("shared", metadata={"ownerReferences": both}))
    await api.delete(f"{path}/one", {"propagationPolicy": "Background"})

    async def forgotten() -> bool:
        shared = await api.get(f"{path}/shared")
        return [o["name"] for o in shared["metadata"]["ownerReferences"]] == ["two"]

    await until(forgotten, what="an owner less")


async def test_orphans_stay_without_their_owner(api_with_controllers: Api) -> None:
    api = api_with_controllers
    path = LEASES.format(await new_namespace(api))
    await a_family(api, path)
    await api.delete(f"{path}/parent", {"propagationPolicy": "Orphan"})
    await all_gone(api, path, "parent")
    for name in ("one", "two"):
        assert "ownerReferences" not in (await api.get(f"{path}/{name}"))["metadata"]
    assert await api.names(path) == ["grandchild", "one", "two"]


async def test_a_child_stays_while_one_of_its_owners_does(api_with_controllers: Api) -> None:
    api = api_with_controllers
    path = LEASES.format(await new_namespace(api))
    owners = [await api.create(path, a_lease(name)) for name in ("one", "two")]
    both = [owned_by(owner)["ownerReferences"][0] for owner in owners]
    await api.create(path, a_lease("shared", metadata={"ownerReferences": both}))
    await api.create(path, a_lease("only", metadata=owned_by(owners[0])))
    await api.delete(f"{path}/one", {"propagationPolicy": "Background"})
    await all_gone(api, path, "one", "only")
    assert await api.names(path) == ["shared", "two"]


async def test_a_child_of_nobody_goes(api_with_controllers: Api) -> None:
    api = api_with_controllers
    path = LEASES.format(await new_namespace(api))
    owner = await api.create(path, a_lease("owner"))
    await api.delete(f"{path}/owner")
    await api.create(path, a_lease("late", metadata=owned_by(owner)))
    await all_gone(api, path, "late")


async def test_everything_goes_with_its_namespace(api_with_controllers: Api) -> None:
    api = api_with_controllers
    namespace = await new_namespace(api)
    await api.create(LEASES.format(namespace), a_lease("mine"))
    going = await api.delete(f"/api/v1/namespaces/{namespace}")
    assert (going["kind"], going["status"]["phase"]) == ("Namespace", "Terminating")
    await all_gone(api, LEASES.format(namespace), "mine")
    await all_gone(api, "/api/v1/namespaces", namespace)
    answer = await api.call("POST", LEASES.format(namespace), a_lease("late"))
    assert answer.refusal == (404, "NotFound")
