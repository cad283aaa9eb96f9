package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/tests/e2e/suite/bed"
)

const completionIndex = "batch.kubernetes.io/job-completion-index"

// A preset of examples/policies, the labels that such a cluster's nodes carry,
// and the levels to ask for.
var presets = []struct {
	file         string
	fixed        map[string]string // on every node
	wide, narrow string            // labels that tell nodes apart
	required     string            // the level of wide
}{
	{
		file:  "aws.yaml",
		fixed: map[string]string{"topology.kubernetes.io/zone": "eu-1a", "topology.k8s.aws/network-node-layer-1": "nn-1"},
		wide:  "topology.k8s.aws/network-node-layer-2", narrow: "topology.k8s.aws/network-node-layer-3", required: "layer-2",
	},
	{
		file:  "topograph.yaml",
		fixed: map[string]string{"fabric.topograph.run/tier-2": "core"},
		wide:  "fabric.topograph.run/tier-1", narrow: "fabric.topograph.run/tier-0", required: "spine",
	},
	{
		file:  "topograph-0.yaml",
		fixed: map[string]string{"network.topology.nvidia.com/core": "core"},
		wide:  "network.topology.nvidia.com/spine", narrow: "network.topology.nvidia.com/leaf", required: "spine",
	},
	{
		file: "topograph-0-block.yaml",
		wide: "network.topology.nvidia.com/spine", narrow: "network.topology.nvidia.com/block", required: "spine",
	},
	{
		file: "nvlink-clique.yaml",
		wide: "cloud.provider.com/topology-block", narrow: "nvidia.com/gpu.clique", required: "block",
	},
}

// fabric makes two wide domains of two narrow ones of two nodes. It returns
// each node's wide and narrow domain.
func fabric(s *bed.Scenario, fixed map[string]string, wide, narrow string) (wides, narrows map[string]string) {
	wides, narrows = map[string]string{}, map[string]string{}
	for i := range 4 {
		w, n := fmt.Sprintf("w%d", i/2), fmt.Sprintf("n%d", i)
		nodes := s.Nodes(2).Prefix(n).GPUs(8).Label(wide, w).Label(narrow, n)
		for key, value := range fixed {
			nodes.Label(key, value)
		}
		for _, name := range nodes.Create() {
			wides[name], narrows[name] = w, n
		}
	}
	return wides, narrows
}

// byRank waits until an Indexed Job's pods are bound and returns their nodes.
func byRank(s *bed.Scenario, job string, n int) []string {
	s.T.Helper()
	bed.Eventually(s.T, bed.Timeout, "the Job's pods are there", func() error {
		got := len(s.PodsOf(corev1.NamespaceDefault, job))
		return bed.Unless(got == n, "%d pods", got)
	})
	pods := s.PodsOf(corev1.NamespaceDefault, job)
	s.AllBound(pods...)
	nodes := make([]string, n)
	for _, pod := range pods {
		index, err := strconv.Atoi(pod.Labels[completionIndex])
		if err != nil {
			s.T.Fatal(err)
		}
		nodes[index] = s.NodeOf(pod)
	}
	return nodes
}

// changes counts how often the domain changes from one rank to the next.
func changes(nodes []string, domains map[string]string) (n int) {
	for i := 1; i < len(nodes); i++ {
		if domains[nodes[i]] != domains[nodes[i-1]] {
			n++
		}
	}
	return n
}

// Every preset reads its cluster's labels: an Indexed Job that requires the
// wide level lies in the one domain that has room, and its ranks follow the tree.
func TestTopologyPresets(t *testing.T) {
	for _, preset := range presets {
		t.Run(preset.file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "policies", preset.file))
			if err != nil {
				t.Fatal(err)
			}
			s := control.Scenario(t, bed.Options{Policy: string(text), Controllers: true})
			wides, narrows := fabric(s, preset.fixed, preset.wide, preset.narrow)
			s.AllBound(s.Pod("busy").GPUs(1).Select(preset.wide, "w0").Create())
			s.Pod("job").GPUs(4).Gang("job", 8).Within(preset.required).Job(8)
			nodes := byRank(s, "job", 8)
			for rank, node := range nodes {
				if wides[node] != "w1" {
					t.Errorf("rank %d is on %s, in %q: the gang fits whole in w1 alone", rank, node, wides[node])
				}
			}
			if got := changes(nodes, narrows); got != 1 {
				t.Errorf("from rank to rank the narrow domain changes %d times, once is enough: %v", got, nodes)
			}
		})
	}
}

// largestIs waits until the largest gang of whole nodes inside a domain of the
// level has so many members.
func largestIs(s *bed.Scenario, level string, want float64) {
	s.T.Helper()
	bed.Eventually(s.T, bed.Timeout, fmt.Sprintf("the largest gang of a %s is %v", level, want), func() error {
		got, _ := s.Metrics().Sum("berth_largest_placeable_gang_pods", fmt.Sprintf("level=%q", level), `pod_gpus="8"`)
		return bed.Unless(got == want, "it is %v", got)
	})
}

// Nodes that lack the label of a level are in none of its domains, though four
// of them stand side by side; the largest gang says so.
func TestTopologyLabelsWithGaps(t *testing.T) {
	s := control.Scenario(t, bed.Options{Policy: racks})
	s.Nodes(2).Prefix("racked").GPUs(8).Label(bed.RackLabel, "r1").Create()
	s.Nodes(4).Prefix("bare").GPUs(8).Create()
	largestIs(s, "rack", 2)
	largestIs(s, "cluster", 6)
	waits := s.Pod("four").GPUs(8).Gang("four", 4).Within("rack").Gated().CreateN(4)
	s.WhyIs(waits[0], "TopologyUnsatisfied")
	s.AllBound(s.Pod("two").GPUs(8).Gang("two", 2).Within("rack").Gated().CreateN(2)...)
	largestIs(s, "rack", 0)
	s.NoneBound(waits...)
	s.PatchNode("bare-000", fmt.Sprintf(`{"metadata":{"labels":{%q:"r2"}}}`, bed.RackLabel))
	s.PatchNode("bare-001", fmt.Sprintf(`{"metadata":{"labels":{%q:"r2"}}}`, bed.RackLabel))
	s.PatchNode("bare-002", fmt.Sprintf(`{"metadata":{"labels":{%q:"r2"}}}`, bed.RackLabel))
	largestIs(s, "rack", 3)
	s.NoneBound(waits...)
	s.PatchNode("bare-003", fmt.Sprintf(`{"metadata":{"labels":{%q:"r2"}}}`, bed.RackLabel))
	s.AllBound(waits...)
}

const blockLabel = "topology.test/block"

// blocks is a policy of blocks, racks and hosts.
const blocks = `apiVersion: berth.dev/v1alpha1
kind: PolicyConfiguration
topology:
  levels:
  - {name: block, nodeLabel: topology.test/block}
  - {name: rack, nodeLabel: topology.test/rack}
  - {name: host, nodeLabel: kubernetes.io/hostname}
`

// Labels that run in a circle, x in y and y in x, are read in the order of the
// policy's levels: racks of one name in two blocks are two racks.
func TestTopologyLabelsInACircle(t *testing.T) {
	s := control.Scenario(t, bed.Options{Policy: blocks})
	in := func(block, rack string, nodes int) {
		s.Nodes(nodes).Prefix(block+rack).GPUs(8).Label(blockLabel, block).Label(bed.RackLabel, rack).Create()
	}
	in("x", "y", 2)
	in("y", "x", 2)
	in("x", "x", 1)
	largestIs(s, "rack", 2)
	largestIs(s, "block", 3)
	largestIs(s, "cluster", 5)
	// By name alone, rack x would have room for three.
	three := func(name, level string) []*corev1.Pod {
		return s.Pod(name).GPUs(8).Gang(name, 3).Within(level).Gated().CreateN(3)
	}
	waits := three("rack", "rack")
	s.WhyIs(waits[0], "TopologyUnsatisfied")
	block := three("block", "block")
	s.AllBound(block...)
	for node := range s.NodesOf(block) {
		if node[0] != 'x' {
			t.Errorf("a member is on %s, outside of block x", node)
		}
	}
	s.NoneBound(waits...)
}

// Annotations that contradict each other: what is required holds, whatever wider
// level is preferred, and Berth's own word counts before another dialect's.
func TestContradictoryTopologyAnnotations(t *testing.T) {
	for _, c := range []struct {
		name string
		mark func(*bed.PodBuilder) *bed.PodBuilder
	}{
		{"a rack required, its block preferred", func(b *bed.PodBuilder) *bed.PodBuilder { return b.PreferWithin("block") }},
		{"a rack required, a block by another dialect", func(b *bed.PodBuilder) *bed.PodBuilder {
			return b.Annotation("kueue.x-k8s.io/podset-required-topology", blockLabel)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := control.Scenario(t, bed.Options{Policy: blocks})
			s.Nodes(4).GPUs(8).Label(blockLabel, "b").Racks(2).Create()
			busy := []*corev1.Pod{
				s.Pod("busy-0").GPUs(8).Select(corev1.LabelHostname, "node-000").Create(),
				s.Pod("busy-1").GPUs(8).Select(corev1.LabelHostname, "node-002").Create(),
			}
			s.AllBound(busy...)
			// The block has room for two, no rack has.
			waits := c.mark(s.Pod("g").GPUs(8).Gang("g", 2).Within("rack")).Gated().CreateN(2)
			s.WhyIs(waits[0], "TopologyUnsatisfied")
			s.NoneBound(waits...)
			s.DeleteNow(busy[1])
			s.AllBound(waits...)
			if nodes := s.NodesOf(waits); nodes["node-002"] != 1 || nodes["node-003"] != 1 {
				t.Errorf("the gang lies on %v", nodes)
			}
		})
	}
	t.Run("the other dialect's word alone", func(t *testing.T) {
		s := control.Scenario(t, bed.Options{Policy: blocks})
		s.Nodes(2).GPUs(8).Label(blockLabel, "b").Racks(1).Create()
		within := func(name, label string) []*corev1.Pod {
			return s.Pod(name).GPUs(8).Gang(name, 2).Annotation("kueue.x-k8s.io/podset-required-topology", label).Gated().CreateN(2)
		}
		waits := within("rack", bed.RackLabel)
		s.WhyIs(waits[0], "TopologyUnsatisfied")
		s.AllBound(within("block", blockLabel)...)
		s.NoneBound(waits...)
	})
}
