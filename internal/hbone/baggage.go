package hbone

import "strings"

// Baggage is what a ztunnel says about the workload that it speaks for. It is a
// hint for telemetry; nothing is authorised by it.
type Baggage struct {
	Cluster      string // k8s.cluster.name
	Namespace    string // k8s.namespace.name
	WorkloadType string // the TYPE of k8s.TYPE.name: deployment, cronjob, pod or job
	Workload     string // its value: the workload's name, also where TYPE is pod
	Service      string // service.name, the canonical service
	Revision     string // service.version, the canonical revision
	Region       string // cloud.region
	Zone         string // cloud.availability_zone
}

// ParseBaggage reads a baggage field as ztunnel writes and reads it: k=v joined by
// commas, no spaces, no escapes, no properties; of a value only what is before a
// further '='. An unknown key and an empty value say nothing; of repeated keys the
// last counts.
func ParseBaggage(s string) Baggage {
	var b Baggage
	for member := range strings.SplitSeq(s, ",") {
		key, value, _ := strings.Cut(member, "=")
		value, _, _ = strings.Cut(value, "=")
		if value == "" {
			continue
		}
		switch key {
		case "k8s.cluster.name":
			b.Cluster = value
		case "k8s.namespace.name":
			b.Namespace = value
		case "k8s.deployment.name", "k8s.cronjob.name", "k8s.pod.name", "k8s.job.name":
			b.WorkloadType, b.Workload = key[len("k8s."):len(key)-len(".name")], value
		case "service.name":
			b.Service = value
		case "service.version":
			b.Revision = value
		case "cloud.region":
			b.Region = value
		case "cloud.availability_zone":
			b.Zone = value
		}
	}
	return b
}

// String writes the baggage as ztunnel does. What is empty is left out.
func (b Baggage) String() string {
	var s strings.Builder
	add := func(key, value string) {
		if value == "" {
			return
		}
		if s.Len() > 0 {
			s.WriteByte(',')
		}
		s.WriteString(key)
		s.WriteByte('=')
		s.WriteString(value)
	}
	add("k8s.cluster.name", b.Cluster)
	add("k8s.namespace.name", b.Namespace)
	if b.WorkloadType != "" {
		add("k8s."+b.WorkloadType+".name", b.Workload)
	}
	add("service.name", b.Service)
	add("service.version", b.Revision)
	add("cloud.region", b.Region)
	add("cloud.availability_zone", b.Zone)
	return s.String()
}
