package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// patience is for what takes long in a big cluster, such as reading all of it.
const patience = 10 * time.Minute

// extender is a Berth or a Go extender: not running yet, but its addresses are
// known, so that a scheduler can be configured first.
type extender struct {
	*process
	verbs string        // URL of the verbs
	ops   string        // URL of Berth's operations port; "" for others
	after time.Duration // from exec to ready

	launch func() (*process, error)
	probe  string
}

// newBerth is berth serve with a kubeconfig or a snapshot, and with the default
// log verbosity.
func (l *lab) newBerth(source ...string) (*extender, error) {
	verbs, err := freePort()
	if err != nil {
		return nil, err
	}
	ops, err := freePort()
	if err != nil {
		return nil, err
	}
	args := append([]string{"serve", "--leader-elect=false",
		"--listen", fmt.Sprintf("127.0.0.1:%d", verbs),
		"--ops-listen", fmt.Sprintf("127.0.0.1:%d", ops)}, source...)
	e := &extender{verbs: fmt.Sprintf("http://127.0.0.1:%d", verbs), ops: fmt.Sprintf("http://127.0.0.1:%d", ops)}
	e.launch = func() (*process, error) { return l.startProcess("berth", l.berth, args...) }
	e.probe = e.ops + "/readyz"
	return e, nil
}

// newReference is the Go extender; answer is what its filter keeps.
func (l *lab) newReference(answer, kubeconfig string) (*extender, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	e := &extender{verbs: "http://" + address, probe: "http://" + address + "/readyz"}
	e.launch = func() (*process, error) {
		return l.startProcess("reference-"+answer, l.reference, "-listen", address, "-answer", answer, "-kubeconfig", kubeconfig)
	}
	return e, nil
}

// start runs it and waits until it is ready. No extender at all is ready.
func (e *extender) start() (err error) {
	if e == nil {
		return nil
	}
	if e.process, err = e.launch(); err != nil {
		return err
	}
	e.after, err = e.ready(http.DefaultClient, e.probe, patience)
	return err
}

func (e *extender) stop() {
	if e != nil {
		e.process.stop()
	}
}

// parked waits until Berth has so many bind calls under way.
func (e *extender) parked(count int) error {
	for deadline := time.Now().Add(time.Minute); ; {
		metrics, err := e.metrics()
		if err != nil {
			return err
		}
		n := metrics["berth_standing_binds"]
		if int(n) >= count {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%v of %d bind calls are parked", n, count)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// metrics are Berth's own, by series.
func (e *extender) metrics() (map[string]float64, error) {
	resp, err := http.Get(e.ops + "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return parseMetrics(resp.Body)
}

// parseMetrics reads Prometheus' text format.
func parseMetrics(text io.Reader) (map[string]float64, error) {
	metrics := map[string]float64{}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		line := lines.Text()
		if blank := strings.LastIndexByte(line, ' '); blank > 0 && line[0] != '#' {
			if value, err := strconv.ParseFloat(line[blank+1:], 64); err == nil {
				metrics[line[:blank]] = value
			}
		}
	}
	return metrics, lines.Err()
}
