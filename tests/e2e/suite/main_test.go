// Package suite tests Berth end to end: real kube-apiserver, etcd and
// kube-scheduler, the berth program, and users' objects.
package suite

import (
	"fmt"
	"os"
	"testing"

	"berth.dev/tests/e2e/suite/bed"
)

// control is the control plane that all tests share.
var control *bed.Bed

func TestMain(m *testing.M) {
	var err error
	if control, err = bed.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	control.Close(code != 0)
	os.Exit(code)
}
