package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
)

const (
	startVersion = 1000
	namespace    = "default"
	binaryWatch  = "application/vnd.kubernetes.protobuf;stream=watch"
)

// A result is how far the run is, since the first Binding.
type result struct {
	Pods      int     `json:"pods"`
	Seconds   float64 `json:"seconds"`
	ServerCPU float64 `json:"server_cpu"`
}

type server struct {
	nodes, pods *collection
	reached     chan result

	mutex      sync.Mutex
	waiting    map[string]*corev1.Pod
	bound      int
	version    int
	first      time.Time
	cpuAtFirst time.Duration
}

func newServer(nodes, pods int) *server {
	s := &server{
		nodes:   newCollection(),
		pods:    newCollection(),
		reached: make(chan result, 2),
		waiting: map[string]*corev1.Pod{},
		version: startVersion,
	}
	for n := range nodes {
		s.nodes.add("ADDED", aNode(n))
	}
	for n := range pods {
		pod := aPod(n)
		s.waiting[pod.Name] = pod
		s.pods.add("ADDED", pod)
	}
	return s
}

// bind notes the node of a pod and tells the streams.
func (s *server) bind(w http.ResponseWriter, r *http.Request) {
	var binding corev1.Binding
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = decodeBinding(body, &binding)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	parts := strings.Split(r.URL.Path, "/")
	name := parts[len(parts)-2]
	s.mutex.Lock()
	defer s.mutex.Unlock()
	pod := s.waiting[name]
	if pod == nil {
		http.Error(w, `{"kind":"Status","code":409,"reason":"Conflict"}`, http.StatusConflict)
		return
	}
	delete(s.waiting, name)
	now := time.Now()
	if s.bound == 0 {
		s.first, s.cpuAtFirst = now, processorTime()
	}
	s.bound++
	s.version++
	pod.Spec.NodeName = binding.Target.Name
	pod.ResourceVersion = strconv.Itoa(s.version)
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now),
	}}
	s.pods.add("MODIFIED", pod)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}`)
	if s.bound == 1 || len(s.waiting) == 0 {
		s.reached <- result{s.bound, now.Sub(s.first).Seconds(), (processorTime() - s.cpuAtFirst).Seconds()}
	}
}

func decodeBinding(body []byte, into *corev1.Binding) error {
	if rest, is := bytes.CutPrefix(body, []byte("k8s\x00")); is {
		var unknown runtime.Unknown
		if err := unknown.Unmarshal(rest); err != nil {
			return err
		}
		return into.Unmarshal(unknown.Raw)
	}
	return json.Unmarshal(body, into)
}

// echo answers any other write with what was sent.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(body)
}

// A collection is all events of one kind; whoever watches gets all of them from the beginning.
type collection struct {
	mutex   sync.Mutex
	changed *sync.Cond
	frames  [][]byte
	initial int
	ended   bool
}

func newCollection() *collection {
	c := &collection{}
	c.changed = sync.NewCond(&c.mutex)
	return c
}

var (
	scheme  = runtime.NewScheme()
	encoder = protobuf.NewSerializer(scheme, scheme)
	raw     = protobuf.NewRawSerializer(scheme, scheme)
)

func init() {
	if err := corev1.AddToScheme(scheme); err != nil {
		panic(err)
	}
}

func (c *collection) add(kind string, object runtime.Object) {
	frame := encoded(kind, object)
	c.mutex.Lock()
	c.frames = append(c.frames, frame)
	if kind == "ADDED" {
		c.initial++
	}
	c.mutex.Unlock()
	c.changed.Broadcast()
}

// stream sends the initial events, the bookmark that ends them, and what comes.
func (c *collection) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", binaryWatch)
	flusher := w.(http.Flusher)
	go func() {
		<-r.Context().Done()
		c.changed.Broadcast()
	}()
	sent := 0
	for r.Context().Err() == nil {
		c.mutex.Lock()
		for sent == len(c.frames) && r.Context().Err() == nil {
			c.changed.Wait()
		}
		frames := c.frames[sent:]
		c.mutex.Unlock()
		for _, frame := range frames {
			if sent == c.initial {
				_, _ = w.Write(bookmark(r.URL.Path))
			}
			if _, err := w.Write(frame); err != nil {
				return
			}
			sent++
		}
		if sent == c.initial {
			_, _ = w.Write(bookmark(r.URL.Path))
		}
		flusher.Flush()
	}
}

func bookmark(path string) []byte {
	meta := metav1.ObjectMeta{
		ResourceVersion: strconv.Itoa(startVersion),
		Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}
	if strings.HasSuffix(path, "/pods") {
		return encoded("BOOKMARK", &corev1.Pod{ObjectMeta: meta})
	}
	return encoded("BOOKMARK", &corev1.Node{ObjectMeta: meta})
}

// encoded is a frame of a stream: four bytes of length, then the event.
func encoded(kind string, object runtime.Object) []byte {
	kinds, _, err := scheme.ObjectKinds(object)
	if err != nil {
		panic(err)
	}
	object.GetObjectKind().SetGroupVersionKind(kinds[0])
	var inner, outer bytes.Buffer
	if err := encoder.Encode(object, &inner); err != nil {
		panic(err)
	}
	event := &metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: inner.Bytes()}}
	if err := raw.Encode(event, &outer); err != nil {
		panic(err)
	}
	length := outer.Len()
	head := []byte{byte(length >> 24), byte(length >> 16), byte(length >> 8), byte(length)}
	return append(head, outer.Bytes()...)
}

// streamNothing is the watch of a kind of which there is no object.
func streamNothing(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"kind":"Unknown","apiVersion":"v1","metadata":`+
		`{"resourceVersion":"%d","annotations":{"%s":"true"}}}}`+"\n",
		startVersion, metav1.InitialEventsAnnotationKey)
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

func notFound(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
}

// isBuiltIn says whether a fresh cluster serves the collection.
func isBuiltIn(path string) bool {
	if strings.HasPrefix(path, "/api/v1/") {
		return true
	}
	for _, group := range []string{"apps", "batch", "policy", "storage.k8s.io", "scheduling.k8s.io/v1/", "resource.k8s.io/v1/"} {
		if strings.HasPrefix(path, "/apis/"+group) {
			return true
		}
	}
	return false
}

// aNode is as the nodes of bench_throughput.
func aNode(n int) *corev1.Node {
	name := fmt.Sprintf("n%d", n)
	room := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("4"),
		corev1.ResourceMemory: resource.MustParse("32Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("node-" + name), ResourceVersion: strconv.Itoa(startVersion),
			Labels: map[string]string{"kubernetes.io/hostname": name},
		},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// aPod is as the pods of bench_throughput.
func aPod(n int) *corev1.Pod {
	name := fmt.Sprintf("p%d", n)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, UID: types.UID("pod-" + name),
			ResourceVersion:   strconv.Itoa(startVersion),
			CreationTimestamp: metav1.NewTime(time.Now()),
		},
		Spec: corev1.PodSpec{
			SchedulerName: "arranger",
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example/main:1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU:    resource.MustParse("100m"),
					corev1.ResourceMemory: resource.MustParse("500Mi"),
				}},
			}},
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute"},
				{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute"},
			},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable},
	}
}
