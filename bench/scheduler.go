package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// defaultSampling leaves percentageOfNodesToScore to kube-scheduler.
const defaultSampling = -1

const schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 5000, burst: 5000}
leaderElection: {leaderElect: false}
%sextenders: %s
`

// rates is the note that every figure of a real scheduler needs.
const rates = "kube-scheduler v1.36.3 and the Go extender: client qps 5000, burst 5000; etcd without fsync; all on the same cores, the load generator included; no kubelet, no controllers"

// entry is the extender's place in kube-scheduler's config, the one that Berth
// documents. An ordinary extender has no preempt verb and the weight 1.
func (e *extender) entry() configv1.Extender {
	entry := bed.BerthExtender(e.verbs, bed.Options{HTTPTimeout: 30 * time.Second})
	if e.ops == "" {
		entry.PreemptVerb, entry.Weight = "", 1
	}
	return entry
}

// startScheduler runs the stock scheduler, with an extender unless it is nil,
// and waits until it is ready.
func (c *cluster) startScheduler(e *extender, sampling int) (*process, error) {
	extenders := []configv1.Extender{}
	if e != nil {
		extenders = append(extenders, e.entry())
	}
	list, err := json.Marshal(extenders)
	if err != nil {
		return nil, err
	}
	extra := ""
	if sampling != defaultSampling {
		extra = fmt.Sprintf("percentageOfNodesToScore: %d\n", sampling)
	}
	path := filepath.Join(c.lab.out, "scheduler.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, schedulerConfig, c.admin, extra, list), 0o644); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	program := filepath.Join(os.Getenv("BERTH_CONTROL_PLANE"), "kube-scheduler")
	p, err := c.lab.startProcess("kube-scheduler", program, "--config="+path, "--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port), "-v=0")
	if err != nil {
		return nil, err
	}
	// It signs its own certificate; nothing secret is sent.
	probe := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	if _, err := p.ready(probe, fmt.Sprintf("https://127.0.0.1:%d/readyz", port), patience); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}
