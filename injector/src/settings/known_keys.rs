//! Keys of Istio's documents, including the keys that only other programs read.

use documents::unknown_keys::Shape::{self, Keys, List};

/// The `config` document.
pub(super) const INJECT_CONFIG: Shape = Keys(
    "aliases defaultTemplates injectedAnnotations policy template templates",
    &[
        ("alwaysInjectSelector", List(&LABEL_SELECTOR)),
        ("neverInjectSelector", List(&LABEL_SELECTOR)),
    ],
);

const LABEL_SELECTOR: Shape =
    Keys("matchLabels", &[("matchExpressions", List(&Keys("key operator values", &[])))]);

/// The `values` document with the keys of the whole chart, because users also pass the chart's
/// values.
pub(super) const VALUES: Shape = Keys(
    "_internal_defaults_do_not_set affinity autoscaleBehavior autoscaleEnabled autoscaleMax \
     autoscaleMin base cni compatibilityVersion configMap cpu defaultRevision defaults \
     deploymentAnnotations deploymentLabels enabled env envVarFrom experimental \
     extraContainerArgs gatewayClasses hub image initContainers ipFamilies ipFamilyPolicy \
     istiodRemote istio_cni jwksResolverExtraRootCA keepaliveMaxServerConnectionAge memory \
     meshConfig mtls nodeSelector outrigger ownerName platform podAnnotations podLabels \
     profile replicaCount resources revision revisionTags rollingMaxSurge \
     rollingMaxUnavailable seccompProfile serviceAccountAnnotations serviceAnnotations \
     sidecarInjectorWebhookAnnotations tag taint telemetry tolerations \
     topologySpreadConstraints traceSampling trustedZtunnelName trustedZtunnelNamespace \
     variant volumeMounts volumes ztunnel",
    &[
        (
            "gateways",
            Keys("istio-egressgateway istio-ingressgateway seccompProfile securityContext", &[]),
        ),
        ("global", GLOBAL),
        ("pilot", PILOT),
        ("sidecarInjectorWebhook", WEBHOOK),
    ],
);

const GLOBAL: Shape = Keys(
    "arch autoscalingv2API caAddress caName certSigners configCluster configRootNamespace \
     configValidation defaultNodeSelector defaultPodDisruptionBudget defaultResources \
     defaultTolerations enabled externalIstiod hub imagePullPolicy imagePullSecrets \
     ipFamilies ipFamilyPolicy istioNamespace istiod jwtPolicy logAsJson meshID meshNetworks \
     mountMtlsCerts namespace nativeNftables network networkPolicy \
     omitSidecarInjectorConfigMap oneNamespace operatorManageWebhooks pilotCertProvider \
     platform podDNSSearchNamespaces priorityClassName remotePilotAddress resourceScope \
     revision tag tracer trustBundleName trustDomain trustDomainAliases useMCP variant \
     waypoint",
    &[
        ("logging", Keys("level", &[])),
        ("multiCluster", Keys("clusterName enabled globalDomainSuffix includeEnvoyFilter", &[])),
        ("proxy", PROXY),
        ("proxy_init", Keys("forceApplyIptables image resources", &[])),
        ("sds", Keys("", &[("token", Keys("aud", &[]))])),
        ("sts", Keys("servicePort", &[])),
    ],
);

const WEBHOOK: Shape = Keys(
    "alwaysInjectSelector defaultTemplates enableNamespacesByDefault injectLabel \
     injectedAnnotations injectionURL neverInjectSelector objectSelector reinvocationPolicy \
     rewriteAppHTTPProbe templates",
    &[],
);

const PROXY: Shape = Keys(
    "autoInject capNetBindService clusterDomain componentLogLevel enableCoreDump \
     excludeIPRanges excludeInboundPorts excludeOutboundPorts holdApplicationUntilProxyStarts \
     image includeIPRanges includeInboundPorts includeOutboundPorts lifecycle logLevel \
     outlierLogPath privileged readinessFailureThreshold readinessInitialDelaySeconds \
     readinessPeriodSeconds seccompProfile statusPort tracer",
    &[
        ("resources", Keys("claims limits requests", &[])),
        ("startupProbe", Keys("enabled failureThreshold", &[])),
    ],
);

const PILOT: Shape = Keys(
    "affinity autoscaleBehavior autoscaleEnabled autoscaleMax autoscaleMin configMap cpu \
     crlConfigMapName deploymentAnnotations deploymentLabels enabled env envVarFrom \
     extraContainerArgs hub image initContainers ipFamilies ipFamilyPolicy istiodRemote \
     jwksResolverExtraRootCA keepaliveMaxServerConnectionAge memory nodeSelector \
     podAnnotations podDisruptionBudget podLabels replicaCount resources rollingMaxSurge \
     rollingMaxUnavailable seccompProfile serviceAccountAnnotations serviceAnnotations tag \
     taint tolerations topologySpreadConstraints traceSampling trustedZtunnelName \
     trustedZtunnelNamespace variant volumeMounts volumes",
    &[("cni", Keys("enabled provider", &[]))],
);
