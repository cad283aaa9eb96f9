// Command reference-extender is what people write when they write an extender:
// the official types, encoding/json, net/http, and client-go for bind. The
// benchmarks measure Berth beside it.
//
// It keeps no state. kube-scheduler has filtered the nodes that it offers, so
// that each of them has room for the pod.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	corev1 "k8s.io/api/core/v1"
)

// The client's rate, as kube-scheduler's in the benchmarks: client-go's default
// of 5 a second would be all that is measured.
const (
	qps   = 5000
	burst = 5000
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address of the verbs")
	kubeconfig := flag.String("kubeconfig", "", "for bind; without it bind answers an error")
	answer := flag.String("answer", "all", "what filter keeps: all nodes, one (the first), or none")
	flag.Parse()

	filters := map[string]func(extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult{
		"all": keepAll, "one": keepOne, "none": keepNone,
	}
	filter, ok := filters[*answer]
	if !ok {
		fmt.Fprintf(os.Stderr, "reference-extender: -answer %q: must be all, one or none\n", *answer)
		os.Exit(2)
	}
	binder, err := newBinder(*kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /filter", handle(filter))
	mux.HandleFunc("POST /prioritize", handle(prioritize))
	mux.HandleFunc("POST /bind", handle(binder.bind))
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServe(*listen, mux))
}

// handle decodes a verb's request and encodes its answer.
func handle[Args, Result any](verb func(Args) Result) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var args Args
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body, err := json.Marshal(verb(args))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}
}

func names(args extenderv1.ExtenderArgs) []string {
	if args.NodeNames == nil {
		return nil
	}
	return *args.NodeNames
}

func keepAll(args extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult {
	kept := names(args)
	return extenderv1.ExtenderFilterResult{NodeNames: &kept}
}

// keepOne names no failed nodes: kube-scheduler needs none, and it is the
// leanest answer there is.
func keepOne(args extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult {
	kept := names(args)
	kept = kept[:min(1, len(kept))]
	return extenderv1.ExtenderFilterResult{NodeNames: &kept}
}

func keepNone(args extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult {
	failed := extenderv1.FailedNodesMap{}
	for _, name := range names(args) {
		failed[name] = "no room for this pod"
	}
	return extenderv1.ExtenderFilterResult{NodeNames: &[]string{}, FailedNodes: failed}
}

func prioritize(args extenderv1.ExtenderArgs) extenderv1.HostPriorityList {
	scores := make(extenderv1.HostPriorityList, 0, len(names(args)))
	for i, name := range names(args) {
		scores = append(scores, extenderv1.HostPriority{Host: name, Score: int64(i) % (extenderv1.MaxExtenderPriority + 1)})
	}
	return scores
}

type binder struct{ client kubernetes.Interface }

func newBinder(kubeconfig string) (*binder, error) {
	if kubeconfig == "" {
		return &binder{}, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = qps, burst
	client, err := kubernetes.NewForConfig(config)
	return &binder{client: client}, err
}

func (b *binder) bind(args extenderv1.ExtenderBindingArgs) extenderv1.ExtenderBindingResult {
	if b.client == nil {
		return extenderv1.ExtenderBindingResult{Error: "no API server"}
	}
	err := b.client.CoreV1().Pods(args.PodNamespace).Bind(context.Background(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: args.PodNamespace, Name: args.PodName, UID: args.PodUID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: args.Node},
	}, metav1.CreateOptions{})
	if err != nil {
		return extenderv1.ExtenderBindingResult{Error: err.Error()}
	}
	return extenderv1.ExtenderBindingResult{}
}
