package gateway

import (
	"encoding/json"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// checkConfined refuses an overlay whose pods would have a hold on their node.
//
// We make pods of what stands in a ConfigMap, with rights that its writer need not
// have: who may write Gateways and ConfigMaps in a namespace shall not become more
// than a tenant by that. So an overlay of one Gateway, laid over what we make by
// ourselves, stays within the level "baseline" of the Pod Security Standards,
// whether or not the namespace enforces one. Overlays of a class are the
// administrator's and may do anything.
func checkConfined(p part, base []byte, patch string) error {
	merged, err := overlay(p, base, patch)
	if err != nil {
		return err
	}
	var d appsv1.Deployment
	if err := json.Unmarshal(merged, &d); err != nil {
		return faultf("%s: %v", p.key, err)
	}
	standards, err := podSecurity()
	if err != nil {
		return fmt.Errorf("checks of the Pod Security Standards: %w", err)
	}
	verdict := policy.AggregateCheckResults(standards.EvaluatePod(
		api.LevelVersion{Level: api.LevelBaseline, Version: api.LatestVersion()}, &d.Spec.Template.ObjectMeta, &d.Spec.Template.Spec))
	if verdict.Allowed {
		return nil
	}
	return faultf(`%s: %s; an overlay of one Gateway stays within the Pod Security level "baseline", more is for those of the class`,
		p.key, verdict.ForbiddenDetail())
}

var podSecurity = sync.OnceValues(func() (policy.Evaluator, error) {
	return policy.NewEvaluator(policy.DefaultChecks(), nil)
})
