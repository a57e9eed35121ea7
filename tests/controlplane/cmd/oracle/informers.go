package main

import (
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// stillFactory makes informers that hold the snapshot's objects and are never started. Their
// handlers are called at once, so that nothing has to be waited for and no order is left to chance.
type stillFactory struct {
	informers.SharedInformerFactory
	client    kubernetes.Interface
	objects   map[reflect.Type][]any
	informers map[reflect.Type]*stillInformer
}

func newStillFactory(client kubernetes.Interface, objects []any) *stillFactory {
	factory := &stillFactory{
		SharedInformerFactory: informers.NewSharedInformerFactory(client, 0),
		client:                client,
		objects:               map[reflect.Type][]any{},
		informers:             map[reflect.Type]*stillInformer{},
	}
	for _, object := range objects {
		kind := reflect.TypeOf(object)
		factory.objects[kind] = append(factory.objects[kind], object)
	}
	return factory
}

// InformerFor gives the one informer of a kind, filled with the snapshot's objects of that kind.
func (f *stillFactory) InformerFor(
	example runtime.Object, create internalinterfaces.NewInformerFunc,
) cache.SharedIndexInformer {
	kind := reflect.TypeOf(example)
	informer, known := f.informers[kind]
	if !known {
		informer = &stillInformer{SharedIndexInformer: create(f.client, 0), objects: f.objects[kind]}
		for _, object := range informer.objects {
			if err := informer.GetIndexer().Add(object); err != nil {
				panic(fmt.Sprintf("an object without a name came through the API types: %v", err))
			}
		}
		f.informers[kind] = informer
	}
	return informer
}

// The groups that kube-scheduler reads, built on this factory in place of the embedded one.

func (f *stillFactory) Apps() apps.Interface             { return apps.New(f, "", nil) }
func (f *stillFactory) Core() core.Interface             { return core.New(f, "", nil) }
func (f *stillFactory) Policy() policy.Interface         { return policy.New(f, "", nil) }
func (f *stillFactory) Resource() resource.Interface     { return resource.New(f, "", nil) }
func (f *stillFactory) Scheduling() scheduling.Interface { return scheduling.New(f, "", nil) }
func (f *stillFactory) Storage() storage.Interface       { return storage.New(f, "", nil) }

// stillInformer has the store and indexes of a real informer, and objects that never change.
type stillInformer struct {
	cache.SharedIndexInformer
	objects []any
}

func (i *stillInformer) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	for _, object := range i.objects {
		handler.OnAdd(object, true)
	}
	return synced{}, nil
}

func (i *stillInformer) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, _ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *stillInformer) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, _ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *stillInformer) HasSynced() bool                     { return true }
func (i *stillInformer) HasSyncedChecker() cache.DoneChecker { return synced{} }

// synced is a registration, and a check, that is complete from the start.
type synced struct{}

func (synced) HasSynced() bool                       { return true }
func (s synced) HasSyncedChecker() cache.DoneChecker { return s }
func (synced) Name() string                          { return "snapshot" }
func (synced) Done() <-chan struct{}                 { return done }

var done = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()
