"""Bugs that we had, by which an object of one tenant harmed everybody."""

from __future__ import annotations

from tests.seeded_bugs.bug import SeededBug

BUGS = (
    # What ended both processes.
    SeededBug(
        "exponent-without-bounds",
        "a quantity with an exponent of a million raises what nobody expects",
        "arranger/api/quantity.py",
        """    if abs(magnitude := len(digits) + power) > _MAX_POWER:
        digits, power = "1", _MAX_POWER if magnitude > 0 else -_MAX_POWER
""",
        "",
        ("tests/unit/api/test_quantity.py", "tests/fuzz"),
        only=("harm",),
    ),
    SeededBug(
        "deep-object-ends-the-watch",
        "an object that is nested too deeply raises out of the decoder",
        "arranger/kube/watch/decoder.py",
        """        except RecursionError:
            wrong = TOO_DEEP
        except Exception as error:  # whatever it is, only this object suffers
""",
        """        except msgspec.DecodeError as error:
""",
        ("tests/unit/kube/watch/test_undecodable.py", "tests/fuzz"),
        only=("harm",),
    ),
    SeededBug(
        "deep-json-in-annotations",
        "an annotation of a hundred thousand brackets is decoded as it is",
        "arranger/api/parsing/json_text.py",
        """        if depth > MAX_DEPTH:
            raise ParseError(f"{shown(text)} is nested more than {MAX_DEPTH} deep")
        if elements >= max_elements:
            raise ParseError(f"{shown(text)} has more than {max_elements} elements")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
""",
        """        if elements >= max_elements:
            raise ParseError(f"{shown(text)} has more than {max_elements} elements")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
""",
        ("tests/unit/api/test_parsing.py", "tests/fuzz"),
        only=("harm",),
    ),
    SeededBug(
        "integer-of-any-length",
        "an integer of thousands of digits raises ValueError where a number is expected",
        "arranger/api/parsing/scalars.py",
        "[+-]?[0-9]{1,20}",
        "[+-]?[0-9]+",
        ("tests/unit/api/test_parsing.py", "tests/fuzz"),
        only=("harm",),
    ),
    SeededBug(
        "deep-template-is-encoded",
        "a job template that is nested thousands deep raises out of the check of its size",
        "arranger/api/types/pod_templates.py",
        """    except RecursionError:
        return 0, TOO_DEEP
""",
        "",
        ("tests/unit/api/test_job_limits.py",),
        only=("harm",),
    ),
    SeededBug(
        "null-containers-of-tyjobs",
        "a TYJob with initContainers: null raises when its pods are made",
        "arranger/controllers/tyjob/manifests.py",
        """[*(spec.get("initContainers") or []), *spec["containers"]]""",
        """[*spec.get("initContainers", []), *spec["containers"]]""",
        ("tests/unit/controllers/tyjob/test_odd_specs.py", "tests/unit/controllers/tyjob"),
        only=("harm",),
    ),
    SeededBug(
        "templates-of-any-shape",
        "templates of TYJobs are not looked at before pods are made of them",
        "arranger/api/types/tyjob.py",
        """parts_of_pods[f"workerSets[{part.name}].template"] = template_problem(part.template)""",
        """parts_of_pods[f"workerSets[{part.name}].template"] = "\"""",
        ("tests/unit/controllers/tyjob/test_odd_specs.py", "tests/unit/controllers/tyjob"),
        only=("harm",),
    ),
    SeededBug(
        "jobs-of-a-billion",
        "a TYJob may have two billion pods",
        "arranger/api/types/tyjob.py",
        """        check_pods([1, *(part.counts for part in self.worker_sets)])
""",
        "",
        ("tests/unit/api/test_job_limits.py",),
        only=("harm",),
    ),
    SeededBug(
        "fault-leaves-the-barrier",
        "what one object makes a handler raise ends the process",
        "arranger/engine/faults/barrier.py",
        """            (hear or kind.updated)(obj, now)
        except Exception as error:
""",
        """            (hear or kind.updated)(obj, now)
        except ValueError as error:
""",
        ("tests/unit/daemon/test_set_aside.py",),
        only=("harm",),
    ),
    # What made room that is not there.
    SeededBug(
        "sums-wrap-around",
        "requests of several exbibytes on one node add up to less than nothing",
        "arranger/cluster/nodes/node_table.py",
        """            if amount >= LARGE:
                self._excess.settle(requested, column, row)
""",
        "",
        ("tests/unit/cluster/test_large_amounts.py",),
        only=("harm",),
    ),
    SeededBug(
        "requests-beyond-64-bits",
        "the requests of one pod add up to more than a column can hold",
        "arranger/api/resource_requests.py",
        "return {name: min(n, MAX_AMOUNT) for name, n in total.items()}",
        "return total",
        ("tests/unit/api/test_resource_requests.py", "tests/unit/cluster/test_large_amounts.py"),
        only=("harm",),
    ),
    SeededBug(
        "set-aside-takes-no-room",
        "a pod that is set aside takes nothing from its node",
        "arranger/engine/faults/barrier.py",
        "        if node and not pod.terminal:\n",
        "        if False:\n",
        ("tests/unit/daemon/test_set_aside.py",),
        only=("harm",),
    ),
    SeededBug(
        "closed-node-opens-by-itself",
        "a node is open again when it is heard of, though a pod on it is counted in no way",
        "arranger/engine/handlers/event_handlers.py",
        "        node = self._closed.as_counted(node)\n",
        "",
        ("tests/unit/daemon/test_closed_nodes.py",),
    ),
    # What took others' room, or kept them from it.
    SeededBug(
        "all-nodes-for-a-starving-gang",
        "a gang that starves has all nodes kept for it, however many there are",
        "arranger/engine/gang/planning/reservation_budget.py",
        "return max(1, nodes * self._policy.reservation_max_nodes_percent // 100)",
        "return max(1, nodes)",
        ("tests/unit/engine/gang/test_reservation_budget.py",),
    ),
    SeededBug(
        "reservation-for-ever",
        "nodes are kept for as long as the gang starves, if it never starts",
        "arranger/engine/gang/planning/reservation_budget.py",
        "return None if since is None else since + self._policy.reservation_seconds",
        "return None",
        ("tests/unit/engine/gang/test_reservation_budget.py",),
    ),
    SeededBug(
        "any-queue-for-anybody",
        "a pod is charged to a queue that its namespace may not use",
        "arranger/quota/pod_queues.py",
        "return stated if rights.may_use(stated, pod.namespace) else DEFAULT_QUEUE",
        "return stated",
        ("tests/unit/quota/test_queue_rights.py", "tests/unit/engine/test_tenants.py"),
    ),
    SeededBug(
        "inference-by-own-word",
        "a pod that calls itself inference is believed, whatever its queue says",
        "arranger/quota/ledger.py",
        """        stated = stated if believed is None or stated in believed else ""
        service = service_type(pod.pod, stated, self._service_by_owner)
        service = service if believed is None or service in believed else ""
""",
        """        service = service_type(pod.pod, stated, self._service_by_owner)
""",
        ("tests/unit/quota/test_queue_rights.py", "tests/unit/engine/test_tenants.py"),
    ),
    # What held the loop, or filled the memory.
    SeededBug(
        "column-for-each-name",
        "each name of a resource that a pod makes up becomes a column of all nodes",
        "arranger/cluster/nodes/node_table.py",
        """        column = self.resources.find(resource)
        return NOT_OFFERED if column == ABSENT else column
""",
        """        if self.resources.find(resource) == ABSENT:
            self._add_column(resource)
        return self.resources.id(resource)
""",
        ("tests/unit/cluster/test_named_by_tenants.py",),
        only=("harm",),
    ),
    SeededBug(
        "selectors-run-for-ever",
        "a CEL selector may cost two hundred times as much as it may at most",
        "arranger/cel/machine.py",
        "self.limit = limit\n",
        "self.limit = limit << 8\n",
        ("tests/unit/plugins/dynamicresources/test_budgets.py",),
        only=("harm",),
    ),
    SeededBug(
        "connections-without-end",
        "a connection that says nothing is kept open beside as many others as come",
        "arranger/daemon/serving/connections.py",
        "while len(self._open) > self.places:",
        "while len(self._open) > 10**9:",
        ("tests/unit/daemon/serving/test_connections.py",),
    ),
)
