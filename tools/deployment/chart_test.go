// Package deployment checks the Helm chart with Helm's own linter and renderer, and
// what comes out with Kubernetes' own types. It is a module of its own, so that
// none of this is near the product; make test-long runs it.
package deployment

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const (
	root     = "../.."
	chartDir = root + "/deploy/helm/sealcast"
)

// cases are the ways in which the chart is used.
var cases = map[string]string{
	"existing secret": `secrets: {existingSecret: keys}`,
	"own secret": `
secrets: {values: {gatewayKey: "key", ticketKeys: "tickets", adminToken: "token", redisPassword: "word"}}`,
	"everything": `
secrets: {existingSecret: keys}
config:
  cipher: {prefer: server, post_quantum: "off"}
  topics: [{match: "secret:**", compress: "off"}]
ingress: {enabled: true, host: push.example.org, tlsSecret: tls, className: haproxy, annotations: {a: b}}
autoscaling: {enabled: true}
networkPolicy: {clients: [{podSelector: {}}], monitoring: [{namespaceSelector: {}}], redis: [{ipBlock: {cidr: 10.0.0.0/8}}]}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true}
extraEnv: [{name: SEALCAST_REDIS_DB, value: "1"}]
imagePullSecrets: [{name: registry}]
nodeSelector: {disk: ssd}
tolerations: [{key: x, operator: Exists}]
affinity: {podAntiAffinity: {}}`,
}

func values(t *testing.T, text string) map[string]any {
	t.Helper()
	v := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestLint(t *testing.T) {
	for name, text := range cases {
		for _, m := range lint.AllWithKubeVersion(chartDir, values(t, text), "push", kubeVersion(t)).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

func kubeVersion(t *testing.T) *chartutil.KubeVersion {
	t.Helper()
	v, err := chartutil.ParseKubeVersion("v1.33.0")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// render returns the manifests by "Kind/name".
func render(t *testing.T, text string) map[string][]byte {
	t.Helper()
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *kubeVersion(t)
	release := chartutil.ReleaseOptions{Name: "push", Namespace: "market"}
	all, err := chartutil.ToRenderValues(c, values(t, text), release, capabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, all)
	if err != nil {
		t.Fatal(err)
	}
	manifests := map[string][]byte{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(path, ".yaml") {
			split(t, path, files[path], manifests)
		}
	}
	return manifests
}

func split(t *testing.T, path, content string, into map[string][]byte) {
	t.Helper()
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(content)))
	for {
		one, err := reader.Read()
		if err == io.EOF {
			return
		}
		var head struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal(one, &head); err != nil {
			t.Fatalf("%s: %v\n%s", path, err, one)
		}
		if head.Kind != "" {
			into[head.Kind+"/"+head.Metadata.Name] = one
		}
	}
}

// Every manifest has only fields that Kubernetes knows, of the right types.
func TestManifestsAreKubernetes(t *testing.T) {
	for name, text := range cases {
		for id, manifest := range render(t, text) {
			kind, _, _ := strings.Cut(id, "/")
			object := objectOf(kind)
			if object == nil {
				continue // of the Prometheus operator
			}
			if err := yaml.UnmarshalStrict(manifest, object); err != nil {
				t.Errorf("%s: %s: %v", name, id, err)
			}
		}
	}
}

func objectOf(kind string) any {
	switch kind {
	case "ConfigMap":
		return new(corev1.ConfigMap)
	case "Secret":
		return new(corev1.Secret)
	case "Service":
		return new(corev1.Service)
	case "Deployment":
		return new(appsv1.Deployment)
	case "Ingress":
		return new(networkingv1.Ingress)
	case "NetworkPolicy":
		return new(networkingv1.NetworkPolicy)
	case "PodDisruptionBudget":
		return new(policyv1.PodDisruptionBudget)
	case "HorizontalPodAutoscaler":
		return new(autoscalingv2.HorizontalPodAutoscaler)
	}
	return nil
}

// What is asked for is there, and nothing else.
func TestWhatIsThere(t *testing.T) {
	basic := []string{"ConfigMap/push-sealcast", "Deployment/push-sealcast", "NetworkPolicy/push-sealcast",
		"PodDisruptionBudget/push-sealcast", "Service/push-sealcast", "Service/push-sealcast-admin"}
	for name, more := range map[string][]string{
		"existing secret": {},
		"own secret":      {"Secret/push-sealcast"},
		"everything": {"HorizontalPodAutoscaler/push-sealcast", "Ingress/push-sealcast",
			"PrometheusRule/push-sealcast", "ServiceMonitor/push-sealcast"},
	} {
		got := slices.Sorted(maps.Keys(render(t, cases[name])))
		if want := slices.Sorted(slices.Values(slices.Concat(basic, more))); !slices.Equal(got, want) {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// The pods cannot be more than they must, keep their keys, and have the time to drain.
func TestPods(t *testing.T) {
	var d appsv1.Deployment
	if err := yaml.UnmarshalStrict(render(t, cases["everything"])["Deployment/push-sealcast"], &d); err != nil {
		t.Fatal(err)
	}
	pod, c := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
	if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
		t.Error("enableServiceLinks is not false")
	}
	if d.Spec.Replicas != nil {
		t.Error("replicas are set although an autoscaler decides")
	}
	if !*pod.SecurityContext.RunAsNonRoot || !*c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation {
		t.Error("the container may be more than it must")
	}
	for _, v := range pod.Volumes {
		if v.Name == "keys" && (*v.Secret.DefaultMode != 0o400 || v.Secret.SecretName != "keys") {
			t.Errorf("keys: %+v", v.Secret)
		}
	}
	if grace := *pod.TerminationGracePeriodSeconds; grace < c.Lifecycle.PreStop.Sleep.Seconds+30 {
		t.Errorf("killed after %d s, in the middle of a drain", grace)
	}
	if c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.LivenessProbe.HTTPGet.Path != "/healthz" {
		t.Errorf("probes: %+v %+v", c.ReadinessProbe, c.LivenessProbe)
	}
}

// The settings that come out are settings of the gateway: its own check says so.
func TestSettingsPassTheGatewaysCheck(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "sealcast")
	build := exec.Command("go", "build", "-o", bin, "./cmd/sealcast")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, text := range cases {
		var m corev1.ConfigMap
		if err := yaml.UnmarshalStrict(render(t, text)["ConfigMap/push-sealcast"], &m); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "gateway.yaml")
		if err := os.WriteFile(file, []byte(m.Data["gateway.yaml"]), 0o600); err != nil {
			t.Fatal(err)
		}
		check := exec.Command(bin, "config", "check", file)
		check.Env = []string{}
		if out, err := check.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("no faults")) {
			t.Errorf("%s: %v\n%s\n%s", name, err, out, m.Data["gateway.yaml"])
		}
	}
}

// A chart without keys is refused with advice, not rolled out to crash.
func TestKeysAreAskedFor(t *testing.T) {
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(c, nil, chartutil.ReleaseOptions{Name: "push"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Render(c, all); err == nil || !strings.Contains(fmt.Sprint(err), "sealcast keygen") {
		t.Errorf("got %v", err)
	}
}
