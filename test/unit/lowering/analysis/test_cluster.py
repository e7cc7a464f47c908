"""Clusters: the ways of messages, and files that describe none."""

from __future__ import annotations

import pytest

from penstock.dialects.job import DeviceAttr
from penstock.lowering.analysis.cluster import ClusterError, parse_cluster

CLUSTER = """
[devices.cuda]
gflops = 1000
link_gbytes = 20
memory = "80G"

[nodes]
ranks = 4

[links.inside]
gbytes = 100
latency_ns = 1000
topology = "{inside}"

[links.between]
gbytes = 10
latency_ns = 5000
topology = "{between}"
"""


def names_of(
    source: int, target: int, inside: str = "full", between: str = "full"
) -> list[str]:
    """The links between the hosts of two of 24 ranks."""
    cluster = parse_cluster(CLUSTER.format(inside=inside, between=between))
    ends = DeviceAttr(source, "cpu", 0), DeviceAttr(target, "cpu", 0)
    return [link.name for link in cluster.route(*ends, 1, 24).links]


def test_topologies_say_which_messages_share_a_link():
    assert names_of(1, 3) == ["rank 1 to rank 3"]
    assert names_of(1, 3, inside="switch") == ["rank 1 out", "rank 3 in"]
    assert names_of(5, 4, inside="ring") == ["rank 5 to rank 4"]
    assert names_of(7, 4, inside="ring") == ["rank 7 to rank 4"]
    assert names_of(0, 23) == ["node 0 to node 5"]
    assert names_of(0, 23, between="switch") == ["node 0 out", "node 5 in"]
    assert names_of(0, 23, between="ring") == ["node 0 to node 5"]
    forth = ["node 1 to node 2", "node 2 to node 3", "node 3 to node 4"]
    assert names_of(4, 16, between="ring") == forth
    back = ["node 0 to node 5", "node 5 to node 4"]
    assert names_of(3, 16, between="ring") == back


def test_times_of_messages_follow_from_bytes_and_hops():
    cluster = parse_cluster(CLUSTER.format(inside="switch", between="ring"))
    host = [DeviceAttr(rank, "cpu", 0) for rank in range(24)]
    near = cluster.route(host[0], host[1], 5000, 24)
    assert (near.busy_ns, near.latency_ns) == (50, 1000)
    far = cluster.route(host[0], host[8], 5000, 24)
    assert (far.busy_ns, far.latency_ns) == (500, 10000)
    gpus = [DeviceAttr(0, "cuda", i) for i in range(2)]
    across = cluster.route(gpus[0], gpus[1], 5000, 24)
    assert [link.name for link in across.links] == [
        "rank 0 from cuda:0",
        "rank 0 to cuda:1",
    ]
    assert across.busy_ns == 250
    up = cluster.route(host[0], gpus[1], 5000, 24)
    assert [(link.kind, link.name) for link in up.links] == [
        ("bus", "rank 0 to cuda:1")
    ]
    assert cluster.route(host[0], host[0], 5000, 24).links == ()


def test_a_file_gives_what_it_says_and_defaults():
    cluster = parse_cluster(CLUSTER.format(inside="full", between="full"))
    assert cluster.machine.of("cuda").gflops == 1000
    assert cluster.machine.of("cuda").task_ns == 5000
    assert cluster.memory == {"cuda": 80 << 30}
    assert parse_cluster("").ranks_of_node == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("devices = 1", "devices should be a table, got 1"),
        ("[devices]\ncuda = 1", "devices.cuda should be a table, got 1"),
        (
            "[devices.cuda]\ngflop = 1",
            "devices.cuda has no 'gflop', did you mean 'gflops'? (known: gflops, "
            "gbytes, link_gbytes, task_ns, switch_ns, memory)",
        ),
        (
            "[devices.cuda]\ngflops = 0",
            "devices.cuda.gflops should be a number above 0, got 0",
        ),
        (
            "[devices.cuda]\ntask_ns = -1",
            "devices.cuda.task_ns should be a number of at least 0, got -1",
        ),
        (
            "[devices.cuda]\nmemory = 80",
            'devices.cuda.memory should be a size such as "80G", got 80',
        ),
        ("[nodes]\nranks = 0", "nodes.ranks should be a whole number above 0, got 0"),
        ("[nodes]\ncount = 2", "nodes has no 'count' (known: ranks)"),
        (
            "[link]",
            "there is no 'link', did you mean 'links'? (known: devices, nodes, links)",
        ),
        (
            "[links.inside]\ntopology = 'torus'",
            "links.inside.topology should be one of full, switch, ring, got 'torus'",
        ),
        (
            "[links.between]\ngbytes = 'fast'",
            "links.between.gbytes should be a number above 0, got 'fast'",
        ),
        ("[links.outside]", "links has no 'outside', did you mean 'inside'?"),
    ],
)
def test_a_file_that_describes_no_cluster_is_told(text: str, message: str):
    with pytest.raises(ClusterError) as caught:
        parse_cluster(text)
    assert str(caught.value).startswith(message)


def test_text_that_is_no_toml_is_told():
    with pytest.raises(ClusterError, match=r"^no TOML: Expected"):
        parse_cluster("[devices")
