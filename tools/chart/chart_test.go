// Package chart tests the Helm chart of deploy/helm/atrium: it is rendered as helm install does, and each
// object is decoded strictly into the type that Kubernetes has for it.
package chart

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

var dir = filepath.Join("..", "..", "deploy", "helm", "atrium")

// Objects are the rendered objects of a release.
type objects struct {
	deployments []apps.Deployment
	services    []core.Service
	claims      []core.PersistentVolumeClaim
	jobs        []batch.CronJob
	budgets     []policy.PodDisruptionBudget
	scalers     []autoscaling.HorizontalPodAutoscaler
	ingresses   []networking.Ingress
	policies    []networking.NetworkPolicy
	monitors    []serviceMonitor
}

// A serviceMonitor has the fields of the custom resource that the chart uses.
type serviceMonitor struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Selector struct {
			MatchLabels map[string]string `json:"matchLabels"`
		} `json:"selector"`
		Endpoints []struct {
			Port     string `json:"port"`
			Interval string `json:"interval"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// render renders the chart with values in YAML, after they were validated by its schema.
func render(values string) (o objects, err error) {
	own := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &own); err != nil {
		return o, err
	}
	return renderValues(own)
}

func renderValues(own map[string]any) (o objects, err error) {
	chart, err := loader.Load(dir)
	if err != nil {
		return o, err
	}
	all, err := util.ToRenderValues(chart, own, common.ReleaseOptions{Name: "first", Namespace: "default", Revision: 1, IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return o, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return o, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for _, text := range strings.Split(files[name], "\n---\n") {
			if err := o.add(text); err != nil {
				return o, fmt.Errorf("%s: %w\n%s", name, err, text)
			}
		}
	}
	return o, nil
}

// add decodes an object.
func (o *objects) add(text string) error {
	var object struct{ Kind string }
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		return err
	}
	switch object.Kind {
	case "":
		return nil // nothing was rendered
	case "Deployment":
		return decode(text, &o.deployments)
	case "Service":
		return decode(text, &o.services)
	case "PersistentVolumeClaim":
		return decode(text, &o.claims)
	case "CronJob":
		return decode(text, &o.jobs)
	case "PodDisruptionBudget":
		return decode(text, &o.budgets)
	case "HorizontalPodAutoscaler":
		return decode(text, &o.scalers)
	case "Ingress":
		return decode(text, &o.ingresses)
	case "NetworkPolicy":
		return decode(text, &o.policies)
	case "ServiceMonitor":
		return decode(text, &o.monitors)
	}
	return fmt.Errorf("unexpected kind %s", object.Kind)
}

func decode[T any](text string, all *[]T) error {
	var one T
	err := yaml.UnmarshalStrict([]byte(text), &one)
	*all = append(*all, one)
	return err
}

func mustRender(t *testing.T, values string) objects {
	t.Helper()
	o, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	if len(o.deployments) != 1 {
		t.Fatalf("%d deployments", len(o.deployments))
	}
	return o
}

const (
	withPostgres = `{database: {engine: postgres, urlSecret: database}}`
	withAll      = `
image: {repository: registry.example/atrium, tag: "1.2.3", pullPolicy: Always, pullSecrets: [registry]}
database: {engine: postgres, urlSecret: database, urlKey: uri}
settings: {log-format: json, key-rate: 1000/s, console: true, trusted-proxies: 10.0.0.0/8}
secretsKeySecret: keys
tlsSecret: certificate
autoscaling: {enabled: true, minReplicas: 2, maxReplicas: 5, targetCPUUtilizationPercentage: 60}
podDisruptionBudget: {enabled: true, maxUnavailable: 2}
service: {type: LoadBalancer, port: 443, annotations: {example.com/a: b}}
ingress: {enabled: true, className: nginx, host: atrium.example, tlsSecret: atrium-example, annotations: {example.com/c: d}}
metrics: {enabled: true, serviceMonitor: {enabled: true, interval: 15s, labels: {release: prometheus}}}
networkPolicy:
  enabled: true
  clients: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress}}}]
  monitoring: [{podSelector: {matchLabels: {app: prometheus}}}]
podAnnotations: {example.com/e: f}
podLabels: {team: growth}
nodeSelector: {disktype: ssd}
tolerations: [{key: dedicated, operator: Exists}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
`
)

// env returns the variables of the container.
func env(d *apps.Deployment) map[string]string {
	all := map[string]string{}
	for _, v := range d.Spec.Template.Spec.Containers[0].Env {
		all[v.Name] = v.Value
	}
	return all
}

func TestPodsAreRestricted(t *testing.T) {
	for _, values := range []string{"", withPostgres, withAll} {
		pod := mustRender(t, values).deployments[0].Spec.Template.Spec
		c := pod.Containers[0]
		if s := pod.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser != 65532 || *s.FSGroup != 65532 || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
			t.Errorf("the pod has %+v", s)
		}
		if s := c.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) || s.Capabilities.Add != nil {
			t.Errorf("the container has %+v", s)
		}
		if *pod.AutomountServiceAccountToken || *pod.EnableServiceLinks || *pod.TerminationGracePeriodSeconds < 10 {
			t.Errorf("the pod has %+v", pod)
		}
		volumes := map[string]bool{}
		for _, v := range pod.Volumes {
			volumes[v.Name] = true
			if v.Secret != nil && *v.Secret.DefaultMode&0o007 != 0 {
				t.Errorf("everyone can read the secret %s", v.Name)
			}
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("%s mounts no volume", m.Name)
			}
			delete(volumes, m.Name)
		}
		if len(volumes) > 0 {
			t.Errorf("volumes that are not mounted: %v", volumes)
		}
		for _, p := range []*core.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
			if p.HTTPGet.Port.StrVal != "http" {
				t.Errorf("a probe asks %v", p.HTTPGet)
			}
		}
		if c.StartupProbe.HTTPGet.Path != "/readyz" || c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.LivenessProbe.HTTPGet.Path != "/healthz" {
			t.Error("a probe asks for the wrong thing: a pod without its database must not be restarted")
		}
	}
}

func TestSQLiteHasOnePodThatIsReplacedAfterItHasEnded(t *testing.T) {
	o := mustRender(t, "{replicas: 5, autoscaling: {enabled: true}, settings: {console: true}}")
	d := o.deployments[0]
	if *d.Spec.Replicas != 1 || d.Spec.Strategy.Type != apps.RecreateDeploymentStrategyType {
		t.Errorf("%d pods, replaced by %s", *d.Spec.Replicas, d.Spec.Strategy.Type)
	}
	if len(o.budgets)+len(o.scalers) != 0 {
		t.Error("it can be scaled")
	}
	if len(o.claims) != 1 || o.claims[0].Annotations["helm.sh/resource-policy"] != "keep" || o.claims[0].Spec.Resources.Requests.Storage().String() != "10Gi" || o.claims[0].Spec.StorageClassName != nil {
		t.Fatalf("the claims are %+v", o.claims)
	}
	volumes := d.Spec.Template.Spec.Volumes
	if i := slices.IndexFunc(volumes, func(v core.Volume) bool { return v.Name == "data" }); volumes[i].PersistentVolumeClaim.ClaimName != o.claims[0].Name {
		t.Errorf("the data is in %+v", volumes[i])
	}
	if all := env(&d); all["ATRIUM_CONSOLE"] != "true" || all["ATRIUM_ADDR"] != ":8080" || all["ATRIUM_DATABASE_FILE"] != "" {
		t.Errorf("the variables are %v", all)
	}
}

func TestBackupsAreMadeOnTheNodeOfTheServer(t *testing.T) {
	o := mustRender(t, `
image: {repository: registry.example/atrium, tag: "1.2.3", pullPolicy: Always, pullSecrets: [registry]}
backup: {enabled: true, schedule: "30 2 * * *", keep: 30d, size: 7Gi, storageClass: slow, resources: {limits: {memory: 1Gi}}}
nodeSelector: {disktype: ssd}
tolerations: [{key: dedicated, operator: Exists}]`)
	if len(o.jobs) != 1 || len(o.claims) != 2 {
		t.Fatalf("%d jobs, %d claims", len(o.jobs), len(o.claims))
	}
	backups, data := o.claims[0], o.claims[1]
	if *backups.Spec.StorageClassName != "slow" || backups.Spec.Resources.Requests.Storage().String() != "7Gi" || backups.Annotations["helm.sh/resource-policy"] != "keep" {
		t.Errorf("the claim is %+v", backups)
	}
	job, template := o.jobs[0].Spec, o.jobs[0].Spec.JobTemplate.Spec.Template
	if job.Schedule != "30 2 * * *" || job.ConcurrencyPolicy != batch.ForbidConcurrent {
		t.Errorf("the job is %+v", job)
	}
	pod := template.Spec
	c := pod.Containers[0]
	if want := []string{"backup", "/backups/", "--keep", "30d"}; !slices.Equal(c.Args, want) || c.Image != "registry.example/atrium:1.2.3" || c.ImagePullPolicy != core.PullAlways || c.Resources.Limits.Memory().String() != "1Gi" {
		t.Errorf("the container is %+v", c)
	}
	mounted := map[string]string{}
	for _, m := range c.VolumeMounts {
		for _, v := range pod.Volumes {
			if v.Name == m.Name && v.PersistentVolumeClaim != nil {
				mounted[m.MountPath] = v.PersistentVolumeClaim.ClaimName
			}
		}
	}
	if want := map[string]string{"/data": data.Name, "/backups": backups.Name}; !maps.Equal(mounted, want) {
		t.Errorf("the volumes are %v, want %v", mounted, want)
	}
	server := o.deployments[0].Spec.Template
	if near := pod.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]; near.TopologyKey != "kubernetes.io/hostname" || !maps.Equal(near.LabelSelector.MatchLabels, o.deployments[0].Spec.Selector.MatchLabels) {
		t.Errorf("it is near %+v", near)
	}
	if s := pod.SecurityContext; *s.RunAsUser != *server.Spec.SecurityContext.RunAsUser || !*s.RunAsNonRoot || *s.FSGroup != 65532 {
		t.Errorf("the pod has %+v", s)
	}
	if s := c.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("the container has %+v", s)
	}
	if pod.ImagePullSecrets[0].Name != "registry" || pod.NodeSelector["disktype"] != "ssd" || len(pod.Tolerations) != 1 || *pod.AutomountServiceAccountToken {
		t.Errorf("the pod is %+v", pod)
	}
	sent := true
	for name, value := range o.services[0].Spec.Selector {
		sent = sent && template.Labels[name] == value
	}
	if sent {
		t.Error("the service sends requests to the job")
	}
	if o := mustRender(t, "{backup: {enabled: true}, fullnameOverride: "+strings.Repeat("n", 50)+"}"); len(o.jobs[0].Name) > 52 || o.jobs[0].Spec.JobTemplate.Spec.Template.Spec.Volumes[2].PersistentVolumeClaim.ClaimName != o.claims[0].Name {
		t.Errorf("the name of the job is %s", o.jobs[0].Name)
	}
	mustRender(t, `{backup: {enabled: true, schedule: "@daily"}}`)
	if o := mustRender(t, `{backup: {enabled: true}, database: {engine: postgres, urlSecret: database}}`); len(o.jobs)+len(o.claims) != 0 {
		t.Error("PostgreSQL has backups of a file")
	}
}

// The pod of the documentation uses the volumes of a release with the name atrium.
func TestTheDocumentedRestoreMountsTheVolumes(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "kubernetes.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	var pod core.Pod
	if err := yaml.UnmarshalStrict([]byte(text), &pod); err != nil {
		t.Fatal(err)
	}
	o := mustRender(t, "{fullnameOverride: atrium, backup: {enabled: true}}")
	var names, claims []string
	for _, v := range pod.Spec.Volumes {
		names = append(names, v.PersistentVolumeClaim.ClaimName)
	}
	for _, c := range o.claims {
		claims = append(claims, c.Name)
	}
	slices.Sort(claims)
	if !slices.Equal(names, claims) {
		t.Errorf("the pod mounts %v, and a release has %v", names, claims)
	}
	if args := pod.Spec.Containers[0].Args; args[0] != "restore" || !slices.Contains(args, "sqlite:/data/atrium.db") {
		t.Errorf("the pod runs %v", args)
	}
}

func TestPostgreSQLHasPodsThatAreReplacedOneByOne(t *testing.T) {
	o := mustRender(t, withPostgres)
	d := o.deployments[0]
	if *d.Spec.Replicas != 3 || d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntVal != 0 || len(o.claims) != 0 || len(o.budgets) != 1 || len(o.scalers) != 0 {
		t.Errorf("%d pods, %+v, %d claims, %d budgets, %d scalers", *d.Spec.Replicas, d.Spec.Strategy.RollingUpdate, len(o.claims), len(o.budgets), len(o.scalers))
	}
	if len(d.Spec.Template.Spec.TopologySpreadConstraints) != 2 {
		t.Error("the pods are not spread")
	}
	all := env(&d)
	if all["ATRIUM_DATABASE"] != "" || all["ATRIUM_DATABASE_FILE"] != "/etc/atrium/database/url" || all["ATRIUM_SHUTDOWN_DELAY"] == "" {
		t.Errorf("the variables are %v", all)
	}
}

func TestEveryValueHasAnEffect(t *testing.T) {
	o := mustRender(t, withAll)
	d := o.deployments[0]
	pod := d.Spec.Template.Spec
	if c := pod.Containers[0]; c.Image != "registry.example/atrium:1.2.3" || c.ImagePullPolicy != core.PullAlways || pod.ImagePullSecrets[0].Name != "registry" {
		t.Errorf("the image is %s", c.Image)
	}
	all := env(&d)
	for name, want := range map[string]string{
		"ATRIUM_LOG_FORMAT": "json", "ATRIUM_KEY_RATE": "1000/s", "ATRIUM_CONSOLE": "true", "ATRIUM_TRUSTED_PROXIES": "10.0.0.0/8", "ATRIUM_METRICS_ADDR": ":9464",
		"ATRIUM_SECRETS_KEY_FILE": "/etc/atrium/secrets/keys", "ATRIUM_TLS_CERT": "/etc/atrium/tls/tls.crt", "ATRIUM_TLS_KEY": "/etc/atrium/tls/tls.key", "ATRIUM_DATABASE_FILE": "/etc/atrium/database/uri",
	} {
		if all[name] != want {
			t.Errorf("%s is %q, want %q", name, all[name], want)
		}
	}
	if pod.Containers[0].ReadinessProbe.HTTPGet.Scheme != core.URISchemeHTTPS {
		t.Error("the probes do not use TLS")
	}
	if d.Spec.Replicas != nil || len(o.scalers) != 1 || *o.scalers[0].Spec.MinReplicas != 2 || o.scalers[0].Spec.MaxReplicas != 5 || o.scalers[0].Spec.ScaleTargetRef.Name != d.Name {
		t.Errorf("it is scaled by %+v", o.scalers)
	}
	if o.budgets[0].Spec.MaxUnavailable.IntVal != 2 {
		t.Errorf("the budget is %+v", o.budgets[0].Spec)
	}
	if len(o.services) != 2 || o.services[0].Spec.Type != core.ServiceTypeLoadBalancer || o.services[0].Spec.Ports[0].Port != 443 || o.services[0].Annotations["example.com/a"] != "b" || len(o.services[0].Spec.Ports) != 1 {
		t.Errorf("the services are %+v", o.services)
	}
	if i := o.ingresses[0]; *i.Spec.IngressClassName != "nginx" || i.Spec.Rules[0].Host != "atrium.example" || i.Spec.TLS[0].SecretName != "atrium-example" || i.Annotations["example.com/c"] != "d" ||
		i.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name != o.services[0].Name {
		t.Errorf("the ingress is %+v", i.Spec)
	}
	if m := o.monitors[0]; m.APIVersion != "monitoring.coreos.com/v1" || m.Spec.Endpoints[0].Interval != "15s" || m.Metadata.Labels["release"] != "prometheus" {
		t.Errorf("the monitor is %+v", m)
	}
	for name, value := range o.monitors[0].Spec.Selector.MatchLabels {
		if o.services[1].Labels[name] != value {
			t.Errorf("the monitor selects %s=%s, and the service has %q", name, value, o.services[1].Labels[name])
		}
	}
	if rules := o.policies[0].Spec.Ingress; len(rules) != 2 || len(rules[0].From) != 1 || len(rules[1].From) != 1 || rules[1].Ports[0].Port.StrVal != "metrics" {
		t.Errorf("the policy is %+v", rules)
	}
	if pod.NodeSelector["disktype"] != "ssd" || len(pod.Tolerations) != 1 || pod.Affinity.NodeAffinity == nil || d.Spec.Template.Labels["team"] != "growth" || d.Spec.Template.Annotations["example.com/e"] != "f" {
		t.Errorf("the pod is placed by %+v", pod)
	}
	// Without what is optional.
	o = mustRender(t, "{metrics: {enabled: false}, resources: null}")
	if len(o.services) != 1 || len(o.ingresses)+len(o.policies)+len(o.monitors) != 0 || env(&o.deployments[0])["ATRIUM_METRICS_ADDR"] != "" {
		t.Errorf("without the optional: %+v", o)
	}
}

func TestSelectorsFindTheirPods(t *testing.T) {
	o := mustRender(t, withAll)
	labels := o.deployments[0].Spec.Template.Labels
	for what, selector := range map[string]map[string]string{
		"deployment": o.deployments[0].Spec.Selector.MatchLabels, "service": o.services[0].Spec.Selector, "metrics": o.services[1].Spec.Selector,
		"budget": o.budgets[0].Spec.Selector.MatchLabels, "policy": o.policies[0].Spec.PodSelector.MatchLabels,
	} {
		if len(selector) == 0 {
			t.Errorf("%s selects everything", what)
		}
		for name, value := range selector {
			if labels[name] != value {
				t.Errorf("%s selects %s=%s, and pods have %q", what, name, value, labels[name])
			}
		}
	}
}

func TestAnImageIsNamedByItsDigestToo(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0f", 32)
	tag := "1" + strings.Repeat("1.", 40) + "1"
	d := mustRender(t, fmt.Sprintf("{backup: {enabled: true}, image: {repository: r.example/atrium, tag: %q, digest: %q}}", tag, digest)).deployments[0]
	if want := "r.example/atrium:" + tag + "@" + digest; d.Spec.Template.Spec.Containers[0].Image != want {
		t.Errorf("the image is %s, want %s", d.Spec.Template.Spec.Containers[0].Image, want)
	}
	// A label may be shorter than a tag.
	for _, fault := range validation.IsValidLabelValue(d.Labels["app.kubernetes.io/version"]) {
		t.Errorf("the version %q: %s", d.Labels["app.kubernetes.io/version"], fault)
	}
}

// Helm reads the numbers of a file of values as floating-point numbers.
func TestNumbersOfSettingsAreWrittenInFull(t *testing.T) {
	o := mustRender(t, "{settings: {max-body: 2097152, hsts: 0}}")
	if all := env(&o.deployments[0]); all["ATRIUM_MAX_BODY"] != "2097152" || all["ATRIUM_HSTS"] != "0" {
		t.Errorf("the variables are %v", all)
	}
}

// The Secret with the keys can also have the client secret of single sign-on: all of its files are mounted.
func TestSecretsAreMountedTogether(t *testing.T) {
	o := mustRender(t, "{secretsKeySecret: atrium-secrets, settings: {oidc-client-secret-file: /etc/atrium/secrets/oidc}}")
	pod := o.deployments[0].Spec.Template.Spec
	for _, v := range pod.Volumes {
		if v.Name == "secrets" && (v.Secret.SecretName != "atrium-secrets" || v.Secret.Items != nil) {
			t.Errorf("the volume is %+v", v.Secret)
		}
	}
	if i := slices.IndexFunc(pod.Containers[0].VolumeMounts, func(m core.VolumeMount) bool { return m.Name == "secrets" }); pod.Containers[0].VolumeMounts[i].MountPath != "/etc/atrium/secrets" {
		t.Errorf("the mounts are %+v", pod.Containers[0].VolumeMounts)
	}
}

func TestTheSchemaRefusesMistakes(t *testing.T) {
	for values, want := range map[string]string{
		"{databse: {}}":                   "databse",
		"{database: {engine: mysql}}":     "engine",
		"{database: {engine: postgres}}":  "urlSecret",
		"{database: {size: 10}}":          "size",
		"{backup: {keep: 2w}}":            "keep",
		"{backup: {schedule: hourly}}":    "schedule",
		"{replicas: 0}":                   "replicas",
		"{ingress: {enabled: true}}":      "host",
		"{settings: {database: x}}":       "database",
		"{settings: {LOG_FORMAT: json}}":  "LOG_FORMAT",
		"{settings: {conole: false}}":     "conole",
		"{service: {type: ExternalName}}": "type",
	} {
		if _, err := render(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", values, err, want)
		}
	}
}

func TestTheChartHasNoLint(t *testing.T) {
	for _, values := range []string{"", withAll} {
		own := map[string]any{}
		if err := yaml.Unmarshal([]byte(values), &own); err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.RunAll(dir, own, "default").Messages {
			if !strings.Contains(m.Error(), "icon is recommended") {
				t.Error(m)
			}
		}
	}
}
