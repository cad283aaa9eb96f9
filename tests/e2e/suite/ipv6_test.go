package suite

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"berth.dev/tests/e2e/suite/bed"
)

// onlyIPv6 runs its arguments where ::1 is the only address that there is: whatever
// would use IPv4 fails. The rest of the machine keeps its addresses.
const onlyIPv6 = `ip link set lo up && ip -4 address flush dev lo && exec "$0" "$@"`

// A cluster without IPv4, from nothing: API server, kube-scheduler and Berth on ::1,
// Services with addresses of IPv6, the installs with their shipped flags. Gangs start
// through Berth.
func TestIPv6Only(t *testing.T) {
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		t.Skipf("not run: this kernel has no IPv6: %v", err)
	}
	if !bed.IPv6() {
		runWithoutIPv4(t)
		return
	}
	if l, err := net.Listen("tcp4", "127.0.0.1:0"); err == nil {
		l.Close()
		t.Fatal("IPv4 is there")
	}
	t.Run("second-scheduler", TestSecondSchedulerFromNothing)
	t.Run("kubeadm", TestKubeadmFromNothing)
}

// runWithoutIPv4 runs the calling test once more, with a control plane of its own.
func runWithoutIPv4(t *testing.T) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--net", "sh", "-c", onlyIPv6, program, "-test.run=^" + t.Name() + "$", "-test.v", "-test.timeout=8m"}
	if os.Geteuid() != 0 {
		args = append([]string{"--user", "--map-root-user"}, args...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "unshare", args...)
	command.Env = append(os.Environ(), bed.LoopbackVariable+"=::1")
	out, err := command.CombinedOutput()
	for _, test := range []string{"second-scheduler", "kubeadm"} {
		if !strings.Contains(string(out), "--- PASS: "+t.Name()+"/"+test+" ") {
			t.Errorf("%s did not pass", test)
		}
	}
	if err != nil || t.Failed() {
		t.Errorf("%v: %s", err, out)
	}
}

// sameFamily says whether an address is of the family that the cluster's Services have.
func sameFamily(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && ip.Is6() == bed.IPv6()
}
