package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1"
	extender "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// Preemption is what the PostFilter plugins make of a pod that fits nowhere: the node they clear
// and whom they remove from it, in order of name, or why they do not help.
type Preemption struct {
	Node    string   `json:"node"`
	Victims []string `json:"victims"`
	Message string   `json:"message,omitempty"`
}

// preempt runs the PostFilter plugins. It gives nothing where upstream's choice is left to chance:
// several nodes are equal by all its criteria, or the criteria hang on the present time.
func (s *scheduler) preempt(
	ctx context.Context, state fwk.CycleState, pod *core.Pod, statuses *framework.NodeToStatus,
) (*Preemption, error) {
	result, status := s.framework.RunPostFilterPlugins(ctx, state, pod, statuses)
	if !status.IsSuccess() {
		return &Preemption{Victims: []string{}, Message: status.Message()}, nil
	}
	if s.untimed {
		return nil, nil
	}
	candidates, err := s.candidates(ctx, state, pod, statuses)
	if err != nil {
		return nil, err
	}
	best := s.preemption.Evaluator.SelectCandidate(ctx, candidates)
	for _, candidate := range candidates {
		if candidate.Name() != best.Name() && rank(candidate.Victims()) == rank(best.Victims()) {
			return nil, nil
		}
	}
	if result.NominatedNodeName != best.Name() {
		return nil, fmt.Errorf("preemption chose %s, then %s", result.NominatedNodeName, best.Name())
	}
	victims := []string{}
	for _, victim := range best.Victims().Pods {
		victims = append(victims, victim.Namespace+"/"+victim.Name)
	}
	slices.Sort(victims)
	return &Preemption{Node: best.Name(), Victims: victims}, nil
}

// candidates are all nodes that could be cleared for the pod. The budgets come in order of name,
// where upstream's lister has none.
func (s *scheduler) candidates(
	ctx context.Context, state fwk.CycleState, pod *core.Pod, statuses *framework.NodeToStatus,
) ([]preemption.Candidate, error) {
	nodes, err := statuses.NodesForStatusCode(s.view.NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return nil, err
	}
	budgets, err := s.preemption.Evaluator.PdbLister.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	slices.SortFunc(budgets, func(a, b *policy.PodDisruptionBudget) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	candidates, _, err := s.preemption.Evaluator.DryRunPreemption(
		ctx, state, pod, nodes, budgets, 0, int32(len(nodes)))
	return candidates, err
}

// rank is what upstream orders candidates by; whatever is equal here is chosen by chance.
func rank(victims *extender.Victims) [5]int64 {
	var sum int64
	for _, pod := range victims.Pods {
		sum += int64(corev1.PodPriority(pod)) + math.MaxInt32 + 1
	}
	return [5]int64{
		victims.NumPDBViolations,
		int64(corev1.PodPriority(victims.Pods[0])),
		sum,
		int64(len(victims.Pods)),
		util.GetEarliestPodStartTime(victims).UnixNano(),
	}
}
