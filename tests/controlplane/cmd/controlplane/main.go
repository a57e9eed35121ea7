// Command controlplane is a Kubernetes control plane in one static binary, for tests.
//
// It runs the published components as they are; the first argument says which:
//
//	controlplane etcd|kube-apiserver|kube-controller-manager|kube-scheduler [flags]
//	controlplane genkey FILE
//
// A component ends when its parent does, so that an interrupted test run leaves nothing behind.
package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"strconv"
	"time"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	if len(os.Args) < 2 {
		fail("usage: controlplane etcd|kube-apiserver|kube-controller-manager|kube-scheduler|genkey")
	}
	component := os.Args[1]
	os.Args = append([]string{component}, os.Args[2:]...)
	go endWithParent(parentPID())
	switch component {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllers.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "genkey":
		if len(os.Args) != 2 {
			fail("usage: controlplane genkey FILE")
		}
		generateKey(os.Args[1])
	default:
		fail("unknown component " + component)
	}
}

// parentPID is the process we end with: the one named in ARRANGER_PARENT, because whoever started
// us may be gone before we can ask, or else the one that we have.
func parentPID() int {
	if parent, err := strconv.Atoi(os.Getenv("ARRANGER_PARENT")); err == nil {
		return parent
	}
	return os.Getppid()
}

// endWithParent exits once the process that started us is gone and another has adopted us.
func endWithParent(parent int) {
	for os.Getppid() == parent {
		time.Sleep(500 * time.Millisecond)
	}
	os.Exit(3)
}

// generateKey writes a private key for signing service-account tokens.
func generateKey(path string) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		fail(err.Error())
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		fail(err.Error())
	}
}

func fail(why string) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(2)
}
