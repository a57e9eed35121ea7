package main

import (
	"context"
	"errors"
	"slices"

	core "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Verdict is what the plugins say about one pending pod.
type Verdict struct {
	Pod        string                      `json:"pod"`
	PreFilter  *Rejection                  `json:"preFilter,omitempty"`
	Feasible   []string                    `json:"feasible"`
	Rejected   map[string]*Rejection       `json:"rejected"`
	Scores     map[string]map[string]int64 `json:"scores"`
	Totals     map[string]int64            `json:"totals"`
	FitError   string                      `json:"fitError,omitempty"`
	Preemption *Preemption                 `json:"preemption,omitempty"`
	// Error: a plugin failed, and kube-scheduler would try again; nothing else is told then.
	Error string `json:"error,omitempty"`
}

// Rejection is why a node, or the pod as a whole, was rejected, by the first plugin to do so.
type Rejection struct {
	Plugin  string   `json:"plugin"`
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

// judge tells about each pending pod as if it came alone; nothing is placed.
func judge(ctx context.Context, snapshot *Snapshot) ([]*Verdict, error) {
	snapshot.complete()
	if len(snapshot.Nodes) == 0 {
		return nil, errors.New("a snapshot needs a node")
	}
	verdicts := []*Verdict{}
	for _, pod := range snapshot.Pending {
		// A new one each time: the dry run of a preemption changes the order of pods on nodes.
		scheduler, err := newScheduler(ctx, snapshot)
		if err != nil {
			return nil, err
		}
		verdict, err := scheduler.judge(ctx, pod)
		if err != nil {
			verdict = newVerdict(pod)
			verdict.Error = err.Error()
		}
		verdicts = append(verdicts, verdict)
	}
	return verdicts, nil
}

func newVerdict(pod *core.Pod) *Verdict {
	return &Verdict{
		Pod:      pod.Namespace + "/" + pod.Name,
		Feasible: []string{},
		Rejected: map[string]*Rejection{},
		Scores:   map[string]map[string]int64{},
		Totals:   map[string]int64{},
	}
}

// judge runs the phases of one scheduling cycle, up to the choice of the node.
func (s *scheduler) judge(ctx context.Context, pod *core.Pod) (*Verdict, error) {
	verdict := newVerdict(pod)
	state := framework.NewCycleState()
	diagnosis := framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	chosen, status, _ := s.framework.RunPreFilterPlugins(ctx, state, pod)
	var feasible []fwk.NodeInfo
	switch {
	case status.IsSuccess():
		var err error
		if feasible, err = s.filter(ctx, state, pod, chosen, diagnosis.NodeToStatus, verdict); err != nil {
			return nil, err
		}
	case status.IsRejected():
		diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		diagnosis.PreFilterMsg = status.Message()
		verdict.PreFilter = rejection(status)
	default:
		return nil, status.AsError()
	}
	if len(feasible) > 0 {
		return verdict, s.score(ctx, state, pod, feasible, verdict)
	}
	fitError := framework.FitError{Pod: pod, NumAllNodes: s.nodes, Diagnosis: diagnosis}
	verdict.FitError = fitError.Error()
	var err error
	verdict.Preemption, err = s.preempt(ctx, state, pod, diagnosis.NodeToStatus)
	return verdict, err
}

// filter gives the nodes that fit, and writes down why the others do not.
func (s *scheduler) filter(
	ctx context.Context, state fwk.CycleState, pod *core.Pod, chosen *fwk.PreFilterResult,
	statuses *framework.NodeToStatus, verdict *Verdict,
) ([]fwk.NodeInfo, error) {
	nodes, err := s.view.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	var feasible []fwk.NodeInfo
	for _, node := range nodes {
		name := node.Node().Name
		if !chosen.AllNodes() && !chosen.NodeNames.Has(name) {
			verdict.Rejected[name] = &Rejection{
				Plugin:  "PreFilterResult",
				Code:    fwk.UnschedulableAndUnresolvable.String(),
				Reasons: []string{"node is not in the PreFilter result"},
			}
			continue
		}
		status := s.framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
		switch {
		case status.IsSuccess():
			feasible = append(feasible, node)
			verdict.Feasible = append(verdict.Feasible, name)
		case status.IsRejected():
			statuses.Set(name, status)
			verdict.Rejected[name] = rejection(status)
		default:
			return nil, status.AsError()
		}
	}
	slices.Sort(verdict.Feasible)
	return feasible, nil
}

// score writes down the weighted points of the nodes that fit.
func (s *scheduler) score(
	ctx context.Context, state fwk.CycleState, pod *core.Pod, nodes []fwk.NodeInfo, verdict *Verdict,
) error {
	if status := s.framework.RunPreScorePlugins(ctx, state, pod, nodes); !status.IsSuccess() {
		return status.AsError()
	}
	results, status := s.framework.RunScorePlugins(ctx, state, pod, nodes)
	if !status.IsSuccess() {
		return status.AsError()
	}
	for _, node := range results {
		points := map[string]int64{}
		for _, plugin := range node.Scores {
			points[plugin.Name] = plugin.Score
		}
		verdict.Scores[node.Name] = points
		verdict.Totals[node.Name] = node.TotalScore
	}
	return nil
}

func rejection(status *fwk.Status) *Rejection {
	reasons := slices.Clone(status.Reasons())
	slices.Sort(reasons)
	return &Rejection{Plugin: status.Plugin(), Code: status.Code().String(), Reasons: reasons}
}
