package suite

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/tests/e2e/suite/bed"
)

const devicesAnnotation = "berth.dev/devices"

// dgx makes one DGX H100, whose agent reads the pods' annotation if selects is set.
func dgx(s *bed.Scenario, selects bool) string {
	name := s.Nodes(1).GPUs(8).Label("nvidia.com/gpu.machine", "DGXH100").Create()[0]
	if selects {
		s.PatchNode(name, `{"metadata":{"annotations":{"berth.dev/device-selection":"annotation"}}}`)
	}
	want := "counted"
	if selects {
		want = "kept"
	}
	indicesAre(s, want)
	return name
}

// indicesAre waits until Berth says so of the only node.
func indicesAre(s *bed.Scenario, state string) {
	s.T.Helper()
	bed.Eventually(s.T, bed.Timeout, "the node's devices are "+state, func() error {
		var page struct {
			Items []struct {
				Hardware struct{ Source, Indices, Problem string }
			}
		}
		if err := json.Unmarshal(s.Get("/api/v1/nodes"), &page); err != nil {
			return err
		}
		ok := len(page.Items) == 1 && page.Items[0].Hardware.Source == "labels" && page.Items[0].Hardware.Indices == state
		return bed.Unless(ok, "%+v", page.Items)
	})
}

// devicesOf reads the indices that a bound pod was given; none: nil.
func devicesOf(s *bed.Scenario, pod *corev1.Pod) []int {
	s.T.Helper()
	live, err := s.Client.CoreV1().Pods(pod.Namespace).Get(s.T.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		s.T.Fatal(err)
	}
	note, found := live.Annotations[devicesAnnotation]
	if !found {
		return nil
	}
	var containers map[string]map[string][]int
	if err := json.Unmarshal([]byte(note), &containers); err != nil {
		s.T.Fatalf("%s of %s is %q: %v", devicesAnnotation, pod.Name, note, err)
	}
	devices := containers[pod.Spec.Containers[0].Name][string(bed.GPU)]
	if len(containers) != 1 || devices == nil {
		s.T.Fatalf("%s of %s is %q", devicesAnnotation, pod.Name, note)
	}
	return devices
}

func wantDevices(s *bed.Scenario, pod *corev1.Pod, want ...int) {
	s.T.Helper()
	if got := devicesOf(s, pod); !slices.Equal(got, want) {
		s.T.Errorf("%s has devices %v, want %v", pod.Name, got, want)
	}
}

// Two pods of four GPUs get a socket each of a DGX H100; what they have is known
// after a restart too, so that a third one gets what is free.
func TestDevicesOnWholeSockets(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	dgx(s, true)
	first := s.Pod("a").GPUs(4).Create()
	s.AllBound(first)
	second := s.Pod("b").GPUs(4).Create()
	s.AllBound(second)
	wantDevices(s, first, 0, 1, 2, 3)
	wantDevices(s, second, 4, 5, 6, 7)

	s.KillBerth(syscall.SIGKILL)
	s.StartBerth()
	indicesAre(s, "kept")
	s.DeleteNow(first)
	third := s.Pod("c").GPUs(1).Create()
	fourth := s.Pod("d").GPUs(3).Create()
	s.AllBound(third, fourth)
	got := append(devicesOf(s, third), devicesOf(s, fourth)...)
	slices.Sort(got)
	if !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Errorf("after the restart devices %v were given, want 0 to 3", got)
	}
}

// The members of a gang that lands on one node have devices of their own.
func TestDevicesOfAGang(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	dgx(s, true)
	gang := s.Pod("g").GPUs(2).Gang("g", 4).Gated().CreateN(4)
	s.AllBound(gang...)
	var all []int
	for _, pod := range gang {
		devices := devicesOf(s, pod)
		if len(devices) != 2 || devices[0]/4 != devices[1]/4 {
			t.Errorf("%s has devices %v, not two of one socket", pod.Name, devices)
		}
		all = append(all, devices...)
	}
	slices.Sort(all)
	if !slices.Equal(all, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("the gang has devices %v", all)
	}
}

// A node that does not say who heeds indices gets none: the kubelet picks.
func TestDevicesOnlyWhereSomebodyHeedsThem(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	dgx(s, false)
	pod := s.Pod("a").GPUs(4).Create()
	s.AllBound(pod)
	if devices := devicesOf(s, pod); devices != nil {
		t.Errorf("devices %v were written for nobody to read", devices)
	}
}

// Whoever writes somebody else's devices onto his pod gains nothing: the node is
// counted, no device is given twice, and it recovers when he is gone.
func TestForgedDevices(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	dgx(s, true)
	honest := s.Pod("honest").GPUs(4).Create()
	s.AllBound(honest)
	forger := s.Pod("forger").GPUs(2).Create()
	s.AllBound(forger)
	wantDevices(s, honest, 0, 1, 2, 3)
	forged := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, devicesAnnotation,
		fmt.Sprintf(`{%q:{%q:[0,1]}}`, forger.Spec.Containers[0].Name, bed.GPU))
	if _, err := s.Client.CoreV1().Pods(forger.Namespace).Patch(t.Context(), forger.Name, types.MergePatchType, []byte(forged), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	indicesAre(s, "count_only")
	if nodes, _ := s.Metrics().Sum("berth_device_nodes", `state="count_only"`); nodes != 1 {
		t.Errorf("%v nodes are count-only by the metrics, want 1", nodes)
	}
	other := s.Pod("other").GPUs(2).Create()
	tooMuch := s.Pod("too-much").GPUs(1).Create()
	s.AllBound(other)
	s.NoneBound(tooMuch)
	if devices := devicesOf(s, other); devices != nil {
		t.Errorf("devices %v were given on a node that is only counted", devices)
	}
	s.KillBerth(syscall.SIGKILL)
	s.StartBerth()
	indicesAre(s, "count_only")
	s.DeleteNow(forger, other, tooMuch)
	indicesAre(s, "kept")
	last := s.Pod("last").GPUs(4).Create()
	s.AllBound(last)
	wantDevices(s, last, 4, 5, 6, 7)
}

// A node that loses a device does not say which: it is counted until it is whole.
func TestANodeLosesADevice(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	node := dgx(s, true)
	four := s.Pod("four").GPUs(4).Create()
	s.AllBound(four)
	s.SetCapacity(node, bed.GPU, 7)
	bed.Eventually(t, bed.Timeout, "the loss is noticed", func() error {
		refused, _ := s.Metrics().Sum("berth_hardware_nodes", `source="refused"`)
		return bed.Unless(refused == 1, "%v nodes with contradictory hardware", refused)
	})
	two := s.Pod("two").GPUs(2).Create()
	s.AllBound(two)
	if devices := devicesOf(s, two); devices != nil {
		t.Errorf("devices %v were given while it is not known which are there", devices)
	}
}

// A description that contradicts itself or is out of bounds is refused as a whole,
// whatever the labels say, and nobody guesses: the node says why, is counted, and
// takes pods; a sound one is taken from then on.
func TestContradictoryHardware(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	node := dgx(s, true)
	describe := func(text string) {
		t.Helper()
		s.PatchNode(node, fmt.Sprintf(`{"metadata":{"annotations":{"berth.dev/device-topology":%q}}}`, text))
	}
	hardwareIs := func(source, indices, problem string) {
		t.Helper()
		bed.Eventually(t, bed.Timeout, "the hardware is "+source+" "+problem, func() error {
			var page struct {
				Items []struct {
					Hardware struct{ Source, Indices, Problem string }
				}
			}
			if err := json.Unmarshal(s.Get("/api/v1/nodes"), &page); err != nil {
				return err
			}
			h := page.Items[0].Hardware
			return bed.Unless(h.Source == source && h.Indices == indices && h.Problem == problem, "%+v", h)
		})
	}
	row := "[" + strings.Repeat("0,", 16) + "0]"
	for text, why := range map[string]string{
		`{"count":2,"links":[[0,4],[3,0]]}`:                                "links: not the same from 1 to 0 as back",
		`{"count":17,"links":[` + strings.Repeat(row+",", 16) + row + "]}": "count: not an integer from 1 to 16",
		`{"count":8,"links":[` + row + "]}":                                "links: more than 8 entries",
		`{"count":8,"links":[[0,1,1,1,1,1,1,1]]}`:                          "links: not as many rows as devices",
		strings.Repeat(" ", 64<<10+1):                                      "longer than 64 KiB",
	} {
		describe(text)
		hardwareIs("refused", "count_only", "berth.dev/device-topology: "+why)
		if refused, _ := s.Metrics().Sum("berth_hardware_nodes", `source="refused"`); refused != 1 {
			t.Errorf("%s: %v nodes are refused by the metrics", why, refused)
		}
	}
	counted := s.Pod("counted").GPUs(4).Create()
	s.AllBound(counted)
	if devices := devicesOf(s, counted); devices != nil {
		t.Errorf("devices %v were given by a description that was refused", devices)
	}
	s.DeleteNow(counted)
	s.AllGone(counted)

	// Sockets of even and of odd devices.
	describe(`{"count":8,"numa":[0,1,0,1,0,1,0,1]}`)
	hardwareIs("annotation", "kept", "")
	kept := s.Pod("kept").GPUs(4).Create()
	s.AllBound(kept)
	wantDevices(s, kept, 0, 2, 4, 6)
}
