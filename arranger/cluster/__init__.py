"""The state a decision is made on: nodes as NumPy columns, and the pods on them."""

from arranger.cluster.cluster import Cluster as Cluster
from arranger.cluster.columns import ABSENT as ABSENT
from arranger.cluster.columns import CPU as CPU
from arranger.cluster.columns import MEMORY as MEMORY
from arranger.cluster.columns import PODS as PODS
from arranger.cluster.columns import BoolArray as BoolArray
from arranger.cluster.columns import IdArray as IdArray
from arranger.cluster.columns import IntArray as IntArray
from arranger.cluster.nodes.node_table import NodeTable as NodeTable
from arranger.cluster.nodes.node_view import NodeInfo as NodeInfo
from arranger.cluster.nodes.node_view import NodeView as NodeView
from arranger.cluster.nodes.row_change import RowChange as RowChange
from arranger.cluster.object_store import ObjectStore as ObjectStore
from arranger.cluster.pod_info import PodInfo as PodInfo
