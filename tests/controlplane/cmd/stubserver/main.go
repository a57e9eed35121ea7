// Command stubserver is an API server that stores and checks nothing, for benchmarks that ask how
// far a scheduler goes beside a server that is not the limit.
//
// It holds nodes and pods that wait, made when it starts; serves them as streams of initial events
// in the binary form, all other kinds as empty; takes Bindings, and tells the streams of them. It
// prints its address, and, with the first Binding and the last, a line of JSON: how many pods are
// bound, the seconds since the first Binding, and the processor time that it took itself in these.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

func main() {
	nodes := flag.Int("nodes", 5000, "nodes")
	pods := flag.Int("pods", 5000, "pods that wait")
	folder := flag.String("folder", ".", "where ca.crt is written")
	flag.Parse()

	certificate, err := selfSigned(*folder)
	if err != nil {
		log.Fatal(err)
	}
	server := newServer(*nodes, *pods)
	listener, err := listen(certificate)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("https://%s\n", listener.Addr())
	go func() {
		for result := range server.reached {
			if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
				log.Fatal(err)
			}
		}
	}()
	log.Fatal(http.Serve(listener, server))
}

// ServeHTTP answers as an API server does, as far as a scheduler can tell.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/binding"):
		s.bind(w, r)
	case r.Method != http.MethodGet:
		echo(w, r)
	case path == "/api/v1/pods" && r.URL.Query().Get("watch") != "":
		s.pods.stream(w, r)
	case path == "/api/v1/nodes" && r.URL.Query().Get("watch") != "":
		s.nodes.stream(w, r)
	case !isBuiltIn(path):
		notFound(w)
	case r.URL.Query().Get("watch") != "":
		streamNothing(w, r)
	default:
		notFound(w)
	}
}

// processorTime is what this process has taken so far.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
