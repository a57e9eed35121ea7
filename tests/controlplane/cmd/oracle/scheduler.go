package main

import (
	"context"
	"fmt"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// scheduler is kube-scheduler's framework with its default profile over one snapshot.
type scheduler struct {
	framework  framework.Framework
	view       *cache.Snapshot
	nodes      int
	preemption *defaultpreemption.DefaultPreemption
	// untimed: what preemption chooses is not told, because it hangs on the present time.
	untimed bool
}

// newScheduler puts the snapshot into the scheduler's view of the nodes, its listers and its
// nominations.
func newScheduler(ctx context.Context, snapshot *Snapshot) (*scheduler, error) {
	config, err := latest.Default()
	if err != nil {
		return nil, err
	}
	client := fake.NewClientset(snapshot.written()...)
	factory := newStillFactory(client, snapshot.objects())
	devices, err := deviceManager(ctx, factory)
	if err != nil {
		return nil, err
	}
	s := &scheduler{
		view:    cache.NewSnapshot(snapshot.bound(), snapshot.Nodes),
		nodes:   len(snapshot.Nodes),
		untimed: snapshot.untimed(),
	}
	s.framework, err = frameworkruntime.NewFramework(ctx, s.registry(), &config.Profiles[0],
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithEventRecorder(&events.FakeRecorder{}),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSharedDRAManager(devices),
		frameworkruntime.WithSharedCSIManager(
			nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithSnapshotSharedLister(s.view),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
	)
	if err != nil {
		return nil, err
	}
	waiting := queue.NewSchedulingQueue(s.framework.QueueSortFunc(), factory)
	s.framework.SetPodNominator(waiting)
	s.framework.SetPodActivator(waiting)
	for _, pod := range snapshot.nominated() {
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", klog.KObj(pod), err)
		}
		waiting.AddNominatedPod(klog.FromContext(ctx), info, nil)
	}
	return s, nil
}

// registry is the in-tree registry; the preemption plugin made from it is kept, and deletes nothing.
func (s *scheduler) registry() frameworkruntime.Registry {
	registry := plugins.NewInTreeRegistry()
	create := registry[names.DefaultPreemption]
	registry[names.DefaultPreemption] = func(
		ctx context.Context, args runtime.Object, handle fwk.Handle,
	) (fwk.Plugin, error) {
		plugin, err := create(ctx, args, handle)
		if err != nil {
			return nil, err
		}
		s.preemption = plugin.(*defaultpreemption.DefaultPreemption)
		s.preemption.Executor.PreemptPod = func(
			context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *core.Pod, string,
		) error {
			return nil
		}
		return plugin, nil
	}
	return registry
}

// deviceManager is what the DynamicResources plugin asks; no device is ever tainted here.
func deviceManager(ctx context.Context, factory *stillFactory) (fwk.SharedDRAManager, error) {
	group := factory.Resource().V1()
	claims := assumecache.NewAssumeCache(
		klog.FromContext(ctx), group.ResourceClaims().Informer(), "ResourceClaim", "", nil)
	slices, err := tracker.StartTracker(ctx, tracker.Options{SliceInformer: group.ResourceSlices()})
	if err != nil {
		return nil, err
	}
	return dynamicresources.NewDRAManager(ctx, claims, slices, factory), nil
}
