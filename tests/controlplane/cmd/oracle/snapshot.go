package main

import (
	"reflect"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	resource "k8s.io/api/resource/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Snapshot is a cluster frozen in time, in the format of the conformance corpora.
type Snapshot struct {
	Nodes                  []*core.Node                  `json:"nodes"`
	Pods                   []*core.Pod                   `json:"pods"`
	Pending                []*core.Pod                   `json:"pending"`
	Namespaces             []*core.Namespace             `json:"namespaces"`
	Services               []*core.Service               `json:"services"`
	ReplicationControllers []*core.ReplicationController `json:"replicationControllers"`
	ReplicaSets            []*apps.ReplicaSet            `json:"replicaSets"`
	StatefulSets           []*apps.StatefulSet           `json:"statefulSets"`
	PersistentVolumes      []*core.PersistentVolume      `json:"persistentVolumes"`
	PersistentVolumeClaims []*core.PersistentVolumeClaim `json:"persistentVolumeClaims"`
	StorageClasses         []*storage.StorageClass       `json:"storageClasses"`
	CSINodes               []*storage.CSINode            `json:"csiNodes"`
	CSIDrivers             []*storage.CSIDriver          `json:"csiDrivers"`
	CSIStorageCapacities   []*storage.CSIStorageCapacity `json:"csiStorageCapacities"`
	VolumeAttachments      []*storage.VolumeAttachment   `json:"volumeAttachments"`
	ResourceClaims         []*resource.ResourceClaim     `json:"resourceClaims"`
	ResourceSlices         []*resource.ResourceSlice     `json:"resourceSlices"`
	DeviceClasses          []*resource.DeviceClass       `json:"deviceClasses"`
	PriorityClasses        []*scheduling.PriorityClass   `json:"priorityClasses"`
	PodDisruptionBudgets   []*policy.PodDisruptionBudget `json:"podDisruptionBudgets"`
}

// complete gives the objects what hand-written manifests leave out: namespace and uid. Pods that
// have ended are left out, as kube-scheduler's own watch leaves them out.
func (s *Snapshot) complete() {
	s.Pods = selected(s.Pods, live)
	s.Pending = selected(s.Pending, live)
	for _, pods := range [][]*core.Pod{s.Pods, s.Pending} {
		for _, pod := range pods {
			if pod.Namespace == "" {
				pod.Namespace = meta.NamespaceDefault
			}
			if pod.UID == "" {
				pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
			}
			if pod.Spec.SchedulerName == "" {
				pod.Spec.SchedulerName = core.DefaultSchedulerName
			}
		}
	}
}

func live(pod *core.Pod) bool {
	return pod.Status.Phase != core.PodSucceeded && pod.Status.Phase != core.PodFailed
}

func selected(pods []*core.Pod, wanted func(*core.Pod) bool) []*core.Pod {
	var kept []*core.Pod
	for _, pod := range pods {
		if wanted(pod) {
			kept = append(kept, pod)
		}
	}
	return kept
}

// bound are the pods that run on a node of the snapshot.
func (s *Snapshot) bound() []*core.Pod {
	nodes := sets.New[string]()
	for _, node := range s.Nodes {
		nodes.Insert(node.Name)
	}
	return selected(s.Pods, func(pod *core.Pod) bool { return nodes.Has(pod.Spec.NodeName) })
}

// nominated are the pods beside the pending ones that wait for a node to be cleared for them.
func (s *Snapshot) nominated() []*core.Pod {
	return selected(s.Pods, func(pod *core.Pod) bool {
		return pod.Spec.NodeName == "" && pod.Status.NominatedNodeName != ""
	})
}

// untimed tells whether a bound pod lacks its start time. Upstream then takes the present for it,
// so that what it would preempt differs from run to run.
func (s *Snapshot) untimed() bool {
	for _, pod := range s.Pods {
		if pod.Status.StartTime == nil {
			return true
		}
	}
	return false
}

// objects lists everything that the plugins read through listers.
func (s *Snapshot) objects() []any {
	var all []any
	sections := reflect.ValueOf(*s)
	for i := range sections.NumField() {
		for j := range sections.Field(i).Len() {
			all = append(all, sections.Field(i).Index(j).Interface())
		}
	}
	return all
}

// written are the objects that a plugin writes: a claim that keeps its pod from nodes is taken back.
func (s *Snapshot) written() []runtime.Object {
	claims := make([]runtime.Object, len(s.ResourceClaims))
	for i, claim := range s.ResourceClaims {
		claims[i] = claim
	}
	return claims
}
