// Package stub is the simplest extender that works: it accepts nodes, scores
// them, and binds through the API. It stands in for Berth where the test bed
// itself is tested, and for other people's extenders beside Berth.
package stub

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// Extender is a running stub. Accept and Score may be nil: every node is then
// accepted, and none preferred.
type Extender struct {
	Client kubernetes.Interface // for bind
	Accept func(node string) bool
	Score  func(node string) int64

	Filters, Prioritizes, Binds atomic.Int64

	server *httptest.Server
}

// Start serves the verbs /filter, /prioritize and /bind on a loopback port.
func (e *Extender) Start() *Extender {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /filter", handle(e.filter))
	mux.HandleFunc("POST /prioritize", handle(e.prioritize))
	mux.HandleFunc("POST /bind", handle(e.bind))
	e.server = httptest.NewUnstartedServer(mux)
	e.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	e.server.Start()
	return e
}

// URL is the urlPrefix of the extender.
func (e *Extender) URL() string { return e.server.URL }

// Close ends the extender.
func (e *Extender) Close() { e.server.Close() }

// handle decodes a verb's request and encodes its answer in one write with its
// length, so that kube-scheduler can use the connection again.
func handle[Args, Result any](verb func(context.Context, Args) Result) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var args Args
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		answer, err := json.Marshal(verb(r.Context(), args))
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}
}

func (e *Extender) filter(_ context.Context, args extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult {
	e.Filters.Add(1)
	result := extenderv1.ExtenderFilterResult{FailedNodes: extenderv1.FailedNodesMap{}}
	accept := func(node string) bool {
		if e.Accept == nil || e.Accept(node) {
			return true
		}
		result.FailedNodes[node] = "refused by the stub"
		return false
	}
	if args.NodeNames != nil {
		kept := slices.DeleteFunc(slices.Clone(*args.NodeNames), func(name string) bool { return !accept(name) })
		result.NodeNames = &kept
	}
	if args.Nodes != nil {
		kept := *args.Nodes
		kept.Items = slices.DeleteFunc(slices.Clone(kept.Items), func(node corev1.Node) bool { return !accept(node.Name) })
		result.Nodes = &kept
	}
	return result
}

func (e *Extender) prioritize(_ context.Context, args extenderv1.ExtenderArgs) extenderv1.HostPriorityList {
	e.Prioritizes.Add(1)
	var names []string
	if args.NodeNames != nil {
		names = *args.NodeNames
	} else if args.Nodes != nil {
		for _, node := range args.Nodes.Items {
			names = append(names, node.Name)
		}
	}
	scores := extenderv1.HostPriorityList{}
	for _, name := range names {
		score := int64(0)
		if e.Score != nil {
			score = e.Score(name)
		}
		scores = append(scores, extenderv1.HostPriority{Host: name, Score: score})
	}
	return scores
}

func (e *Extender) bind(ctx context.Context, args extenderv1.ExtenderBindingArgs) extenderv1.ExtenderBindingResult {
	e.Binds.Add(1)
	err := e.Client.CoreV1().Pods(args.PodNamespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: args.PodNamespace, Name: args.PodName, UID: args.PodUID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: args.Node},
	}, metav1.CreateOptions{})
	if err != nil {
		return extenderv1.ExtenderBindingResult{Error: err.Error()}
	}
	return extenderv1.ExtenderBindingResult{}
}
