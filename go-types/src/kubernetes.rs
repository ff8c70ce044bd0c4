//! Types of a pod from `k8s.io/api/core/v1` and `k8s.io/apimachinery/pkg/apis/meta/v1`, release
//! 1.35, that are reachable from `ObjectMeta` and `PodSpec`, sorted by name.

use crate::FieldKind::{
    Any, Bool, Int, IntOrString, List, Map, Pointer, Quantity, String, Struct, Time,
};
use crate::{STRING_MAP, STRINGS, Type, embedded, kept, omitted};

static AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE: Type = Type {
    id: 0,
    name: "v1.AWSElasticBlockStoreVolumeSource",
    fields: &[
        kept("VolumeID", "volumeID", String),
        omitted("FSType", "fsType", String),
        omitted("Partition", "partition", Int(32)),
        omitted("ReadOnly", "readOnly", Bool),
    ],
};

static AFFINITY: Type = Type {
    id: 1,
    name: "v1.Affinity",
    fields: &[
        omitted("NodeAffinity", "nodeAffinity", Pointer(&Struct(&NODE_AFFINITY))),
        omitted("PodAffinity", "podAffinity", Pointer(&Struct(&POD_AFFINITY))),
        omitted("PodAntiAffinity", "podAntiAffinity", Pointer(&Struct(&POD_ANTI_AFFINITY))),
    ],
};

static APP_ARMOR_PROFILE: Type = Type {
    id: 2,
    name: "v1.AppArmorProfile",
    fields: &[
        kept("Type", "type", String),
        omitted("LocalhostProfile", "localhostProfile", Pointer(&String)),
    ],
};

static AZURE_DISK_VOLUME_SOURCE: Type = Type {
    id: 3,
    name: "v1.AzureDiskVolumeSource",
    fields: &[
        kept("DiskName", "diskName", String),
        kept("DataDiskURI", "diskURI", String),
        omitted("CachingMode", "cachingMode", Pointer(&String)),
        omitted("FSType", "fsType", Pointer(&String)),
        omitted("ReadOnly", "readOnly", Pointer(&Bool)),
        omitted("Kind", "kind", Pointer(&String)),
    ],
};

static AZURE_FILE_VOLUME_SOURCE: Type = Type {
    id: 4,
    name: "v1.AzureFileVolumeSource",
    fields: &[
        kept("SecretName", "secretName", String),
        kept("ShareName", "shareName", String),
        omitted("ReadOnly", "readOnly", Bool),
    ],
};

static CSI_VOLUME_SOURCE: Type = Type {
    id: 5,
    name: "v1.CSIVolumeSource",
    fields: &[
        kept("Driver", "driver", String),
        omitted("ReadOnly", "readOnly", Pointer(&Bool)),
        omitted("FSType", "fsType", Pointer(&String)),
        omitted("VolumeAttributes", "volumeAttributes", STRING_MAP),
        omitted(
            "NodePublishSecretRef",
            "nodePublishSecretRef",
            Pointer(&Struct(&LOCAL_OBJECT_REFERENCE)),
        ),
    ],
};

static CAPABILITIES: Type = Type {
    id: 6,
    name: "v1.Capabilities",
    fields: &[omitted("Add", "add", STRINGS), omitted("Drop", "drop", STRINGS)],
};

static CEPH_FS_VOLUME_SOURCE: Type = Type {
    id: 7,
    name: "v1.CephFSVolumeSource",
    fields: &[
        kept("Monitors", "monitors", STRINGS),
        omitted("Path", "path", String),
        omitted("User", "user", String),
        omitted("SecretFile", "secretFile", String),
        omitted("SecretRef", "secretRef", Pointer(&Struct(&LOCAL_OBJECT_REFERENCE))),
        omitted("ReadOnly", "readOnly", Bool),
    ],
};

static CINDER_VOLUME_SOURCE: Type = Type {
    id: 8,
    name: "v1.CinderVolumeSource",
    fields: &[
        kept("VolumeID", "volumeID", String),
        omitted("FSType", "fsType", String),
        omitted("ReadOnly", "readOnly", Bool),
        omitted("SecretRef", "secretRef", Pointer(&Struct(&LOCAL_OBJECT_REFERENCE))),
    ],
};

static CLUSTER_TRUST_BUNDLE_PROJECTION: Type = Type {
    id: 9,
    name: "v1.ClusterTrustBundleProjection",
    fields: &[
        omitted("Name", "name", Pointer(&String)),
        omitted("SignerName", "signerName", Pointer(&String)),
        omitted("LabelSelector", "labelSelector", Pointer(&Struct(&LABEL_SELECTOR))),
        omitted("Optional", "optional", Pointer(&Bool)),
        kept("Path", "path", String),
    ],
};

static CONFIG_MAP_ENV_SOURCE: Type = Type {
    id: 10,
    name: "v1.ConfigMapEnvSource",
    fields: &[
        embedded("LocalObjectReference", &LOCAL_OBJECT_REFERENCE),
        omitted("Optional", "optional", Pointer(&Bool)),
    ],
};

static CONFIG_MAP_KEY_SELECTOR: Type = Type {
    id: 11,
    name: "v1.ConfigMapKeySelector",
    fields: &[
        embedded("LocalObjectReference", &LOCAL_OBJECT_REFERENCE),
        kept("Key", "key", String),
        omitted("Optional", "optional", Pointer(&Bool)),
    ],
};

static CONFIG_MAP_PROJECTION: Type = Type {
    id: 12,
    name: "v1.ConfigMapProjection",
    fields: &[
        embedded("LocalObjectReference", &LOCAL_OBJECT_REFERENCE),
        omitted("Items", "items", List(&Struct(&KEY_TO_PATH))),
        omitted("Optional", "optional", Pointer(&Bool)),
    ],
};

static CONFIG_MAP_VOLUME_SOURCE: Type = Type {
    id: 13,
    name: "v1.ConfigMapVolumeSource",
    fields: &[
        embedded("LocalObjectReference", &LOCAL_OBJECT_REFERENCE),
        omitted("Items", "items", List(&Struct(&KEY_TO_PATH))),
        omitted("DefaultMode", "defaultMode", Pointer(&Int(32))),
        omitted("Optional", "optional", Pointer(&Bool)),
    ],
};

static CONTAINER: Type = Type {
    id: 14,
    name: "v1.Container",
    fields: &[
        kept("Name", "name", String),
        omitted("Image", "image", String),
        omitted("Command", "command", STRINGS),
        omitted("Args", "args", STRINGS),
        omitted("WorkingDir", "workingDir", String),
        omitted("Ports", "ports", List(&Struct(&CONTAINER_PORT))),
        omitted("EnvFrom", "envFrom", List(&Struct(&ENV_FROM_SOURCE))),
        omitted("Env", "env", List(&Struct(&ENV_VAR))),
        omitted("Resources", "resources", Struct(&RESOURCE_REQUIREMENTS)),
        omitted("ResizePolicy", "resizePolicy", List(&Struct(&CONTAINER_RESIZE_POLICY))),
        omitted("RestartPolicy", "restartPolicy", Pointer(&String)),
        omitted("RestartPolicyRules", "restartPolicyRules", List(&Struct(&CONTAINER_RESTART_RULE))),
        omitted("VolumeMounts", "volumeMounts", List(&Struct(&VOLUME_MOUNT))),
        omitted("VolumeDevices", "volumeDevices", List(&Struct(&VOLUME_DEVICE))),
        omitted("LivenessProbe", "livenessProbe", Pointer(&Struct(&PROBE))),
        omitted("ReadinessProbe", "readinessProbe", Pointer(&Struct(&PROBE))),
        omitted("StartupProbe", "startupProbe", Pointer(&Struct(&PROBE))),
        omitted("Lifecycle", "lifecycle", Pointer(&Struct(&LIFECYCLE))),
        omitted("TerminationMessagePath", "terminationMessagePath", String),
        omitted("TerminationMessagePolicy", "terminationMessagePolicy", String),
        omitted("ImagePullPolicy", "imagePullPolicy", String),
        omitted("SecurityContext", "securityContext", Pointer(&Struct(&SECURITY_CONTEXT))),
        omitted("Stdin", "stdin", Bool),
        omitted("StdinOnce", "stdinOnce", Bool),
        omitted("TTY", "tty", Bool),
    ],
};

static CONTAINER_PORT: Type = Type {
    id: 15,
    name: "v1.ContainerPort",
    fields: &[
        omitted("Name", "name", String),
        omitted("HostPort", "hostPort", Int(32)),
        kept("ContainerPort", "containerPort", Int(32)),
        omitted("Protocol", "protocol", String),
        omitted("HostIP", "hostIP", String),
    ],
};

static CONTAINER_RESIZE_POLICY: Type = Type {
    id: 16,
    name: "v1.ContainerResizePolicy",
    fields: &[
        kept("ResourceName", "resourceName", String),
        kept("RestartPolicy", "restartPolicy", String),
    ],
};

static CONTAINER_RESTART_RULE: Type = Type {
    id: 17,
    name: "v1.ContainerRestartRule",
    fields: &[
        omitted("Action", "action", String),
        omitted("ExitCodes", "exitCodes", Pointer(&Struct(&CONTAINER_RESTART_RULE_ON_EXIT_CODES))),
    ],
};

static CONTAINER_RESTART_RULE_ON_EXIT_CODES: Type = Type {
    id: 18,
    name: "v1.ContainerRestartRuleOnExitCodes",
    fields: &[omitted("Operator", "operator", String), omitted("Values", "values", List(&Int(32)))],
};

static DOWNWARD_API_PROJECTION: Type = Type {
    id: 19,
    name: "v1.DownwardAPIProjection",
    fields: &[omitted("Items", "items", List(&Struct(&DOWNWARD_API_VOLUME_FILE)))],
};

static DOWNWARD_API_VOLUME_FILE: Type = Type {
    id: 20,
    name: "v1.DownwardAPIVolumeFile",
    fields: &[
        kept("Path", "path", String),
        omitted("FieldRef", "fieldRef", Pointer(&Struct(&OBJECT_FIELD_SELECTOR))),
        omitted("ResourceFieldRef", "resourceFieldRef", Pointer(&Struct(&RESOURCE_FIELD_SELECTOR))),
        omitted("Mode", "mode", Pointer(&Int(32))),
    ],
};

static DOWNWARD_API_VOLUME_SOURCE: Type = Type {
    id: 21,
    name: "v1.DownwardAPIVolumeSource",
    fields: &[
        omitted("Items", "items", List(&Struct(&DOWNWARD_API_VOLUME_FILE))),
        omitted("DefaultMode", "defaultMode", Pointer(&Int(32))),
    ],
};

static EMPTY_DIR_VOLUME_SOURCE: Type = Type {
    id: 22,
    name: "v1.EmptyDirVolumeSource",
    fields: &[
        omitted("Medium", "medium", String),
        omitted("SizeLimit", "sizeLimit", Pointer(&Quantity)),
    ],
};

static ENV_FROM_SOURCE: Type = Type {
    id: 23,
    name: "v1.EnvFromSource",
    fields: &[
        omitted("Prefix", "prefix", String),
        omitted("ConfigMapRef", "configMapRef", Pointer(&Struct(&CONFIG_MAP_ENV_SOURCE))),
        omitted("SecretRef", "secretRef", Pointer(&Struct(&SECRET_ENV_SOURCE))),
    ],
};

static ENV_VAR: Type = Type {
    id: 24,
    name: "v1.EnvVar",
    fields: &[
        kept("Name", "name", String),
        omitted("Value", "value", String),
        omitted("ValueFrom", "valueFrom", Pointer(&Struct(&ENV_VAR_SOURCE))),
    ],
};

static ENV_VAR_SOURCE: Type = Type {
    id: 25,
    name: "v1.EnvVarSource",
    fields: &[
        omitted("FieldRef", "fieldRef", Pointer(&Struct(&OBJECT_FIELD_SELECTOR))),
        omitted("ResourceFieldRef", "resourceFieldRef", Pointer(&Struct(&RESOURCE_FIELD_SELECTOR))),
        omitted("ConfigMapKeyRef", "configMapKeyRef", Pointer(&Struct(&CONFIG_MAP_KEY_SELECTOR))),
        omitted("SecretKeyRef", "secretKeyRef", Pointer(&Struct(&SECRET_KEY_SELECTOR))),
        omitted("FileKeyRef", "fileKeyRef", Pointer(&Struct(&FILE_KEY_SELECTOR))),
    ],
};

static EPHEMERAL_CONTAINER: Type = Type {
    id: 26,
    name: "v1.EphemeralContainer",
    fields: &[
        embedded("EphemeralContainerCommon", &EPHEMERAL_CONTAINER_COMMON),
        omitted("TargetContainerName", "targetContainerName", String),
    ],
};

static EPHEMERAL_CONTAINER_COMMON: Type = Type {
    id: 27,
    name: "v1.EphemeralContainerCommon",
    fields: &[
        kept("Name", "name", String),
        omitted("Image", "image", String),
        omitted("Command", "command", STRINGS),
        omitted("Args", "args", STRINGS),
        omitted("WorkingDir", "workingDir", String),
        omitted("Ports", "ports", List(&Struct(&CONTAINER_PORT))),
        omitted("EnvFrom", "envFrom", List(&Struct(&ENV_FROM_SOURCE))),
        omitted("Env", "env", List(&Struct(&ENV_VAR))),
        omitted("Resources", "resources", Struct(&RESOURCE_REQUIREMENTS)),
        omitted("ResizePolicy", "resizePolicy", List(&Struct(&CONTAINER_RESIZE_POLICY))),
        omitted("RestartPolicy", "restartPolicy", Pointer(&String)),
        omitted("RestartPolicyRules", "restartPolicyRules", List(&Struct(&CONTAINER_RESTART_RULE))),
        omitted("VolumeMounts", "volumeMounts", List(&Struct(&VOLUME_MOUNT))),
        omitted("VolumeDevices", "volumeDevices", List(&Struct(&VOLUME_DEVICE))),
        omitted("LivenessProbe", "livenessProbe", Pointer(&Struct(&PROBE))),
        omitted("ReadinessProbe", "readinessProbe", Pointer(&Struct(&PROBE))),
        omitted("StartupProbe", "startupProbe", Pointer(&Struct(&PROBE))),
        omitted("Lifecycle", "lifecycle", Pointer(&Struct(&LIFECYCLE))),
        omitted("TerminationMessagePath", "terminationMessagePath", String),
        omitted("TerminationMessagePolicy", "terminationMessagePolicy", String),
        omitted("ImagePullPolicy", "imagePullPolicy", String),
        omitted("SecurityContext", "securityContext", Pointer(&Struct(&SECURITY_CONTEXT))),
        omitted("Stdin", "stdin", Bool),
        omitted("StdinOnce", "stdinOnce", Bool),
        omitted("TTY", "tty", Bool),
    ],
};

static EPHEMERAL_VOLUME_SOURCE: Type = Type {
    id: 28,
    name: "v1.EphemeralVolumeSource",
    fields: &[omitted(
        "VolumeClaimTemplate",
        "volumeClaimTemplate",
        Pointer(&Struct(&PERSISTENT_VOLUME_CLAIM_TEMPLATE)),
    )],
};

static EXEC_ACTION: Type =
    Type { id: 29, name: "v1.ExecAction", fields: &[omitted("Command", "command", STRINGS)] };

static FC_VOLUME_SOURCE: Type = Type {
    id: 30,
    name: "v1.FCVolumeSource",
    fields: &[
        omitted("TargetWWNs", "targetWWNs", STRINGS),
        omitted("Lun", "lun", Pointer(&Int(32))),
        omitted("FSType", "fsType", String),
        omitted("ReadOnly", "readOnly", Bool),
        omitted("WWIDs", "wwids", STRINGS),
    ],
};

static FILE_KEY_SELECTOR: Type = Type {
    id: 31,
    name: "v1.FileKeySelector",
    fields: &[
        kept("VolumeName", "volumeName", String),
        kept("Path", "path", String),
        kept("Key", "key", String),
        omitted("Optional", "optional", Pointer(&Bool)),
    ],
};

static FLEX_VOLUME_SOURCE: Type = Type {
    id: 32,
    name: "v1.FlexVolumeSource",
    fields: &[
        kept("Driver", "driver", String),
        omitted("FSType", "fsType", String),
        omitted("SecretRef", "secretRef", Pointer(&Struct(&LOCAL_OBJECT_REFERENCE))),
        omitted("ReadOnly", "readOnly", Bool),
        omitted("Options", "options", STRING_MAP),
    ],
};

static FLOCKER_VOLUME_SOURCE: Type = Type {
    id: 33,
    name: "v1.FlockerVolumeSource",
    fields: &[
        omitted("DatasetName", "datasetName", String),
        omitted("DatasetUUID", "datasetUUID", String),
    ],
};

static GCE_PERSISTENT_DISK_VOLUME_SOURCE: Type = Type {
    id: 34,
    name: "v1.GCEPersistentDiskVolumeSource",
    fields: &[
        kept("PDName", "pdName", String),
        omitted("FSType", "fsType", String),
        omitted("Partition", "partition", Int(32)),
        omitted("ReadOnly", "readOnly", Bool),
    ],
};

static GRPC_ACTION: Type = Type {
    id: 35,
    name: "v1.GRPCAction",
    fields: &[kept("Port", "port", Int(32)), kept("Service", "service", Pointer(&String))],
};

static GIT_REPO_VOLUME_SOURCE: Type = Type {
    id: 36,
    name: "v1.GitRepoVolumeSource",
    fields: &[
        kept("Repository", "repository", String),
        omitted("Revision", "revision", String),
        omitted("Directory", "directory", String),
    ],
};

static GLUSTERFS_VOLUME_SOURCE: Type = Type {
    id: 37,
    name: "v1.GlusterfsVolumeSource",
    fields: &[
        kept("EndpointsName", "endpoints", String),
        kept("Path", "path", String),
        omitted("ReadOnly", "readOnly", Bool),
    ],
};

static HTTP_GET_ACTION: Type = Type {
    id: 38,
    name: "v1.HTTPGetAction",
    fields: &[
        omitted("Path", "path", String),
        kept("Port", "port", IntOrString),
        omitted("Host", "host", String),
        omitted("Scheme", "scheme", String),
        omitted("HTTPHeaders", "httpHeaders", List(&Struct(&HTTP_HEADER))),
    ],
};

static HTTP_HEADER: Type = Type {
    id: 39,
    name: "v1.HTTPHeader",
    fields: &[kept("Name", "name", String), kept("Value", "value", String)],
};

static HOST_ALIAS: Type = Type {
    id: 40,
    name: "v1.HostAlias",
    fields: &[kept("IP", "ip", String), omitted("Hostnames", "hostnames", STRINGS)],
};

static HOST_PATH_VOLUME_SOURCE: Type = Type {
    id: 41,
    name: "v1.HostPathVolumeSource",
    fields: &[kept("Path", "path", String), omitted("Type", "type", Pointer(&String))],
};

static ISCSI_VOLUME_SOURCE: Type = Type {
    id: 42,
    name: "v1.ISCSIVolumeSource",
    fields: &[
        kept("TargetPortal", "targetPortal", String),
        kept("IQN", "iqn", String),
        kept("Lun", "lun", Int(32)),
        omitted("ISCSIInterface", "iscsiInterface", String),
        omitted("FSType", "fsType", String),
        omitted("ReadOnly", "readOnly", Bool),
        omitted("Portals", "portals", STRINGS),
        omitted("DiscoveryCHAPAuth", "chapAuthDiscovery", Bool),
        omitted("SessionCHAPAuth", "chapAuthSession", Bool),
        omitted("SecretRef", "secretRef", Pointer(&Struct(&LOCAL_OBJECT_REFERENCE))),
        omitted("InitiatorName", "initiatorName", Pointer(&String)),
    ],
};

static IMAGE_VOLUME_SOURCE: Type = Type {
    id: 43,
    name: "v1.ImageVolumeSource",
    fields: &[
        omitted("Reference", "reference", String),
        omitted("PullPolicy", "pullPolicy", String),
    ],
};

static KEY_TO_PATH: Type = Type {
    id: 44,
    name: "v1.KeyToPath",
    fields: &[
        kept("Key", "key", String),
        kept("Path", "path", String),
        omitted("Mode", "mode", Pointer(&Int(32))),
    ],
};

static LABEL_SELECTOR: Type = Type {
    id: 45,
    name: "v1.LabelSelector",
    fields: &[
        omitted("MatchLabels", "matchLabels", STRING_MAP),
        omitted("MatchExpressions", "matchExpressions", List(&Struct(&LABEL_SELECTOR_REQUIREMENT))),
    ],
};

static LABEL_SELECTOR_REQUIREMENT: Type = Type {
    id: 46,
    name: "v1.LabelSelectorRequirement",
    fields: &[
        kept("Key", "key", String),
        kept("Operator", "operator", String),
        omitted("Values", "values", STRINGS),
    ],
};

static LIFECYCLE: Type = Type {
    id: 47,
    name: "v1.Lifecycle",
    fields: &[
        omitted("PostStart", "postStart", Pointer(&Struct(&LIFECYCLE_HANDLER))),
        omitted("PreStop", "preStop", Pointer(&Struct(&LIFECYCLE_HANDLER))),
        omitted("StopSignal", "stopSignal", Pointer(&String)),
    ],
};

static LIFECYCLE_HANDLER: Type = Type {
    id: 48,
    name: "v1.LifecycleHandler",
    fields: &[
        omitted("Exec", "exec", Pointer(&Struct(&EXEC_ACTION))),
        omitted("HTTPGet", "httpGet", Pointer(&Struct(&HTTP_GET_ACTION))),
        omitted("TCPSocket", "tcpSocket", Pointer(&Struct(&TCP_SOCKET_ACTION))),
        omitted("Sleep", "sleep", Pointer(&Struct(&SLEEP_ACTION))),
    ],
};

static LOCAL_OBJECT_REFERENCE: Type =
    Type { id: 49, name: "v1.LocalObjectReference", fields: &[omitted("Name", "name", String)] };

static MANAGED_FIELDS_ENTRY: Type = Type {
    id: 50,
    name: "v1.ManagedFieldsEntry",
    fields: &[
        omitted("Manager", "manager", String),
        omitted("Operation", "operation", String),
        omitted("APIVersion", "apiVersion", String),
        omitted("Time", "time", Pointer(&Time)),
        omitted("FieldsType", "fieldsType", String),
        omitted("FieldsV1", "fieldsV1", Pointer(&Any)),
        omitted("Subresource", "subresource", String),
    ],
};

static NFS_VOLUME_SOURCE: Type = Type {
    id: 51,
    name: "v1.NFSVolumeSource",
    fields: &[
        kept("Server", "server", String),
        kept("Path", "path", String),
        omitted("ReadOnly", "readOnly", Bool),
    ],
};

static NODE_AFFINITY: Type = Type {
    id: 52,
    name: "v1.NodeAffinity",
    fields: &[
        omitted(
            "RequiredDuringSchedulingIgnoredDuringExecution",
            "requiredDuringSchedulingIgnoredDuringExecution",
            Pointer(&Struct(&NODE_SELECTOR)),
        ),
        omitted(
            "PreferredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
            List(&Struct(&PREFERRED_SCHEDULING_TERM)),
        ),
    ],
};

static NODE_SELECTOR: Type = Type {
    id: 53,
    name: "v1.NodeSelector",
    fields: &[kept("NodeSelectorTerms", "nodeSelectorTerms", List(&Struct(&NODE_SELECTOR_TERM)))],
};

static NODE_SELECTOR_REQUIREMENT: Type = Type {
    id: 54,
    name: "v1.NodeSelectorRequirement",
    fields: &[
        kept("Key", "key", String),
        kept("Operator", "operator", String),
        omitted("Values", "values", STRINGS),
    ],
};

static NODE_SELECTOR_TERM: Type = Type {
    id: 55,
    name: "v1.NodeSelectorTerm",
    fields: &[
        omitted("MatchExpressions", "matchExpressions", List(&Struct(&NODE_SELECTOR_REQUIREMENT))),
        omitted("MatchFields", "matchFields", List(&Struct(&NODE_SELECTOR_REQUIREMENT))),
    ],
};

static OBJECT_FIELD_SELECTOR: Type = Type {
    id: 56,
    name: "v1.ObjectFieldSelector",
    fields: &[omitted("APIVersion", "apiVersion", String), kept("FieldPath", "fieldPath", String)],
};

/// `metav1.ObjectMeta`
pub static OBJECT_META: Type = Type {
    id: 57,
    name: "v1.ObjectMeta",
    fields: &[
        omitted("Name", "name", String),
        omitted("GenerateName", "generateName", String),
        omitted("Namespace", "namespace", String),
        omitted("SelfLink", "selfLink", String),
        omitted("UID", "uid", String),
        omitted("ResourceVersion", "resourceVersion", String),
        omitted("Generation", "generation", Int(64)),
        omitted("CreationTimestamp", "creationTimestamp", Time),
        omitted("DeletionTimestamp", "deletionTimestamp", Pointer(&Time)),
        omitted("DeletionGracePeriodSeconds", "deletionGracePeriodSeconds", Pointer(&Int(64))),
        omitted("Labels", "labels", STRING_MAP),
        omitted("Annotations", "annotations", STRING_MAP),
        omitted("OwnerReferences", "ownerReferences", List(&Struct(&OWNER_REFERENCE))),
        omitted("Finalizers", "finalizers", STRINGS),
        omitted("ManagedFields", "managedFields", List(&Struct(&MANAGED_FIELDS_ENTRY))),
    ],
};

static OWNER_REFERENCE: Type = Type {
    id: 58,
    name: "v1.OwnerReference",
    fields: &[
        kept("APIVersion", "apiVersion", String),
        kept("Kind", "kind", String),
        kept("Name", "name", String),
        kept("UID", "uid", String),
        omitted("Controller", "controller", Pointer(&Bool)),
        omitted("BlockOwnerDeletion", "blockOwnerDeletion", Pointer(&Bool)),
    ],
};

static PERSISTENT_VOLUME_CLAIM_SPEC: Type = Type {
    id: 59,
    name: "v1.PersistentVolumeClaimSpec",
    fields: &[
        omitted("AccessModes", "accessModes", STRINGS),
        omitted("Selector", "selector", Pointer(&Struct(&LABEL_SELECTOR))),
        omitted("Resources", "resources", Struct(&VOLUME_RESOURCE_REQUIREMENTS)),
        omitted("VolumeName", "volumeName", String),
        omitted("StorageClassName", "storageClassName", Pointer(&String)),
        omitted("VolumeMode", "volumeMode", Pointer(&String)),
        omitted("DataSource", "dataSource", Pointer(&Struct(&TYPED_LOCAL_OBJECT_REFERENCE))),
        omitted("DataSourceRef", "dataSourceRef", Pointer(&Struct(&TYPED_OBJECT_REFERENCE))),
        omitted("VolumeAttributesClassName", "volumeAttributesClassName", Pointer(&String)),
    ],
};

static PERSISTENT_VOLUME_CLAIM_TEMPLATE: Type = Type {
    id: 60,
    name: "v1.PersistentVolumeClaimTemplate",
    fields: &[
        omitted("ObjectMeta", "metadata", Struct(&OBJECT_META)),
        kept("Spec", "spec", Struct(&PERSISTENT_VOLUME_CLAIM_SPEC)),
    ],
};

static PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE: Type = Type {
    id: 61,
    name: "v1.PersistentVolumeClaimVolumeSource",
    fields: &[kept("ClaimName", "claimName", String), omitted("ReadOnly", "readOnly", Bool)],
};

static PHOTON_PERSISTENT_DISK_VOLUME_SOURCE: Type = Type {
    id: 62,
    name: "v1.PhotonPersistentDiskVolumeSource",
    fields: &[kept("PdID", "pdID", String), omitted("FSType", "fsType", String)],
};

static POD_AFFINITY: Type = Type {
    id: 63,
    name: "v1.PodAffinity",
    fields: &[
        omitted(
            "RequiredDuringSchedulingIgnoredDuringExecution",
            "requiredDuringSchedulingIgnoredDuringExecution",
            List(&Struct(&POD_AFFINITY_TERM)),
        ),
        omitted(
            "PreferredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
            List(&Struct(&WEIGHTED_POD_AFFINITY_TERM)),
        ),
    ],
};

static POD_AFFINITY_TERM: Type = Type {
    id: 64,
    name: "v1.PodAffinityTerm",
    fields: &[
        omitted("LabelSelector", "labelSelector", Pointer(&Struct(&LABEL_SELECTOR))),
        omitted("Namespaces", "namespaces", STRINGS),
        kept("TopologyKey", "topologyKey", String),
        omitted("NamespaceSelector", "namespaceSelector", Pointer(&Struct(&LABEL_SELECTOR))),
        omitted("MatchLabelKeys", "matchLabelKeys", STRINGS),
        omitted("MismatchLabelKeys", "mismatchLabelKeys", STRINGS),
    ],
};

static POD_ANTI_AFFINITY: Type = Type {
    id: 65,
    name: "v1.PodAntiAffinity",
    fields: &[
        omitted(
            "RequiredDuringSchedulingIgnoredDuringExecution",
            "requiredDuringSchedulingIgnoredDuringExecution",
            List(&Struct(&POD_AFFINITY_TERM)),
        ),
        omitted(
            "PreferredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
            List(&Struct(&WEIGHTED_POD_AFFINITY_TERM)),
        ),
    ],
};

static POD_CERTIFICATE_PROJECTION: Type = Type {
    id: 66,
    name: "v1.PodCertificateProjection",
    fields: &[
        omitted("SignerName", "signerName", String),
        omitted("KeyType", "keyType", String),
        omitted("MaxExpirationSeconds", "maxExpirationSeconds", Pointer(&Int(32))),
        omitted("CredentialBundlePath", "credentialBundlePath", String),
        omitted("KeyPath", "keyPath", String),
        omitted("CertificateChainPath", "certificateChainPath", String),
        omitted("UserAnnotations", "userAnnotations", STRING_MAP),
    ],
};

static POD_DNS_CONFIG: Type = Type {
    id: 67,
    name: "v1.PodDNSConfig",
    fields: &[
        omitted("Nameservers", "nameservers", STRINGS),
        omitted("Searches", "searches", STRINGS),
        omitted("Options", "options", List(&Struct(&POD_DNS_CONFIG_OPTION))),
    ],
};

static POD_DNS_CONFIG_OPTION: Type = Type {
    id: 68,
    name: "v1.PodDNSConfigOption",
    fields: &[omitted("Name", "name", String), omitted("Value", "value", Pointer(&String))],
};

static POD_OS: Type = Type { id: 69, name: "v1.PodOS", fields: &[kept("Name", "name", String)] };

static POD_READINESS_GATE: Type = Type {
    id: 70,
    name: "v1.PodReadinessGate",
    fields: &[kept("ConditionType", "conditionType", String)],
};

static POD_RESOURCE_CLAIM: Type = Type {
    id: 71,
    name: "v1.PodResourceClaim",
    fields: &[
        kept("Name", "name", String),
        omitted("ResourceClaimName", "resourceClaimName", Pointer(&String)),
        omitted("ResourceClaimTemplateName", "resourceClaimTemplateName", Pointer(&String)),
    ],
};

static POD_SCHEDULING_GATE: Type =
    Type { id: 72, name: "v1.PodSchedulingGate", fields: &[kept("Name", "name", String)] };

static POD_SECURITY_CONTEXT: Type = Type {
    id: 73,
    name: "v1.PodSecurityContext",
    fields: &[
        omitted("SELinuxOptions", "seLinuxOptions", Pointer(&Struct(&SE_LINUX_OPTIONS))),
        omitted(
            "WindowsOptions",
            "windowsOptions",
            Pointer(&Struct(&WINDOWS_SECURITY_CONTEXT_OPTIONS)),
        ),
        omitted("RunAsUser", "runAsUser", Pointer(&Int(64))),
        omitted("RunAsGroup", "runAsGroup", Pointer(&Int(64))),
        omitted("RunAsNonRoot", "runAsNonRoot", Pointer(&Bool)),
        omitted("SupplementalGroups", "supplementalGroups", List(&Int(64))),
        omitted("SupplementalGroupsPolicy", "supplementalGroupsPolicy", Pointer(&String)),
        omitted("FSGroup", "fsGroup", Pointer(&Int(64))),
        omitted("Sysctls", "sysctls", List(&Struct(&SYSCTL))),
        omitted("FSGroupChangePolicy", "fsGroupChangePolicy", Pointer(&String)),
        omitted("SeccompProfile", "seccompProfile", Pointer(&Struct(&SECCOMP_PROFILE))),
        omitted("AppArmorProfile", "appArmorProfile", Pointer(&Struct(&APP_ARMOR_PROFILE))),
        omitted("SELinuxChangePolicy", "seLinuxChangePolicy", Pointer(&String)),
    ],
};

/// `corev1.PodSpec`
pub static POD_SPEC: Type = Type {
    id: 74,
    name: "v1.PodSpec",
    fields: &[
        omitted("Volumes", "volumes", List(&Struct(&VOLUME))),
        omitted("InitContainers", "initContainers", List(&Struct(&CONTAINER))),
        kept("Containers", "containers", List(&Struct(&CONTAINER))),
        omitted("EphemeralContainers", "ephemeralContainers", List(&Struct(&EPHEMERAL_CONTAINER))),
        omitted("RestartPolicy", "restartPolicy", String),
        omitted(
            "TerminationGracePeriodSeconds",
            "terminationGracePeriodSeconds",
            Pointer(&Int(64)),
        ),
        omitted("ActiveDeadlineSeconds", "activeDeadlineSeconds", Pointer(&Int(64))),
        omitted("DNSPolicy", "dnsPolicy", String),
        omitted("NodeSelector", "nodeSelector", STRING_MAP),
        omitted("ServiceAccountName", "serviceAccountName", String),
        omitted("DeprecatedServiceAccount", "serviceAccount", String),
        omitted("AutomountServiceAccountToken", "automountServiceAccountToken", Pointer(&Bool)),
        omitted("NodeName", "nodeName", String),
        omitted("HostNetwork", "hostNetwork", Bool),
        omitted("HostPID", "hostPID", Bool),
        omitted("HostIPC", "hostIPC", Bool),
        omitted("ShareProcessNamespace", "shareProcessNamespace", Pointer(&Bool)),
        omitted("SecurityContext", "securityContext", Pointer(&Struct(&POD_SECURITY_CONTEXT))),
        omitted("ImagePullSecrets", "imagePullSecrets", List(&Struct(&LOCAL_OBJECT_REFERENCE))),
        omitted("Hostname", "hostname", String),
        omitted("Subdomain", "subdomain", String),
        omitted("Affinity", "affinity", Pointer(&Struct(&AFFINITY))),
        omitted("SchedulerName", "schedulerName", String),
        omitted("Tolerations", "tolerations", List(&Struct(&TOLERATION))),
        omitted("HostAliases", "hostAliases", List(&Struct(&HOST_ALIAS))),
        omitted("PriorityClassName", "priorityClassName", String),
        omitted("Priority", "priority", Pointer(&Int(32))),
        omitted("DNSConfig", "dnsConfig", Pointer(&Struct(&POD_DNS_CONFIG))),
        omitted("ReadinessGates", "readinessGates", List(&Struct(&POD_READINESS_GATE))),
        omitted("RuntimeClassName", "runtimeClassName", Pointer(&String)),
        omitted("EnableServiceLinks", "enableServiceLinks", Pointer(&Bool)),
        omitted("PreemptionPolicy", "preemptionPolicy", Pointer(&String)),
        omitted("Overhead", "overhead", Map(&Quantity)),
        omitted(
            "TopologySpreadConstraints",
            "topologySpreadConstraints",
            List(&Struct(&TOPOLOGY_SPREAD_CONSTRAINT)),
        ),
        omitted("SetHostnameAsFQDN", "setHostnameAsFQDN", Pointer(&Bool)),
        omitted("OS", "os", Pointer(&Struct(&POD_OS))),
        omitted("HostUsers", "hostUsers", Pointer(&Bool)),
        omitted("SchedulingGates", "schedulingGates", List(&Struct(&POD_SCHEDULING_GATE))),
        omitted("ResourceClaims", "resourceClaims", List(&Struct(&POD_RESOURCE_CLAIM))),
        omitted("Resources", "resources", Pointer(&Struct(&RESOURCE_REQUIREMENTS))),
        omitted("HostnameOverride", "hostnameOverride", Pointer(&String)),
        omitted("WorkloadRef", "workloadRef", Pointer(&Struct(&WORKLOAD_REFERENCE))),
    ],
};

static PORTWORX_VOLUME_SOURCE: Type = Type {
    id: 75,
    name: "v1.PortworxVolumeSource",
    fields: &[
        kept("VolumeID", "volumeID", String),
        omitted("FSType", "fsType", String),
        omitted("ReadOnly", "readOnly", Bool),
    ],
};

static PREFERRED_SCHEDULING_TERM: Type = Type {
    id: 76,
    name: "v1.PreferredSchedulingTerm",
    fields: &[
        kept("Weight", "weight", Int(32)),
        kept("Preference", "preference", Struct(&NODE_SELECTOR_TERM)),
    ],
};

static PROBE: Type = Type {
    id: 77,
    name: "v1.Probe",
    fields: &[
        embedded("ProbeHandler", &PROBE_HANDLER),
        omitted("InitialDelaySeconds", "initialDelaySeconds", Int(32)),
        omitted("TimeoutSeconds", "timeoutSeconds", Int(32)),
        omitted("PeriodSeconds", "periodSeconds", Int(32)),
        omitted("SuccessThreshold", "successThreshold", Int(32)),
        omitted("FailureThreshold", "failureThreshold", Int(32)),
        omitted(
            "TerminationGracePeriodSeconds",
            "terminationGracePeriodSeconds",
            Pointer(&Int(64)),
        ),
    ],
};

static PROBE_HANDLER: Type = Type {
    id: 78,
    name: "v1.ProbeHandler",
    fields: &[
        omitted("Exec", "exec", Pointer(&Struct(&EXEC_ACTION))),
        omitted("HTTPGet", "httpGet", Pointer(&Struct(&HTTP_GET_ACTION))),
        omitted("TCPSocket", "tcpSocket", Pointer(&Struct(&TCP_SOCKET_ACTION))),
        omitted("GRPC", "grpc", Pointer(&Struct(&GRPC_ACTION))),
    ],
};

static PROJECTED_VOLUME_SOURCE: Type = Type {
    id: 79,
    name: "v1.ProjectedVolumeSource",
    fields: &[
        kept("Sources", "sources", List(&Struct(&VOLUME_PROJECTION))),
        omitted("DefaultMode", "defaultMode", Pointer(&Int(32))),
    ],
};

static QUOBYTE_VOLUME_SOURCE: Type = Type {
    id: 80,
    name: "v1.QuobyteVolumeSource",
    fields: &[
        kept("Registry", "registry", String),
        kept("Volume", "volume", String),
        omitted("ReadOnly", "readOnly", Bool),
        omitted("User", "user", String),
        omitted("Group", "group", String),
        omitted("Tenant", "tenant", String),
    ],
};

static RBD_VOLUME_SOURCE: Type = Type {
    id: 81,
    name: "v1.RBDVolumeSource",
    fields: &[
        kept("CephMonitors", "monitors", STRINGS),
        kept("RBDImage", "image", String),
        omitted("FSType", "fsType", String),
        omitted("RBDPool", "pool", String),
        omitted("RadosUser", "user", String),
        omitted("Keyring", "keyring", String),
        omitted("SecretRef", "secretRef", Pointer(&Struct(&LOCAL_OBJECT_REFERENCE))),
        omitted("ReadOnly", "readOnly", Bool),
    ],
};

static RESOURCE_CLAIM: Type = Type {
    id: 82,
    name: "v1.ResourceClaim",
    fields: &[kept("Name", "name", String), omitted("Request", "request", String)],
};

static RESOURCE_FIELD_SELECTOR: Type = Type {
    id: 83,
    name: "v1.ResourceFieldSelector",
    fields: &[
        omitted("ContainerName", "containerName", String),
        kept("Resource", "resource", String),
        omitted("Divisor", "divisor", Quantity),
    ],
};

static RESOURCE_REQUIREMENTS: Type = Type {
    id: 84,
    name: "v1.ResourceRequirements",
    fields: &[
        omitted("Limits", "limits", Map(&Quantity)),
        omitted("Requests", "requests", Map(&Quantity)),
        omitted("Claims", "claims", List(&Struct(&RESOURCE_CLAIM))),
    ],
};

static SE_LINUX_OPTIONS: Type = Type {
    id: 85,
    name: "v1.SELinuxOptions",
    fields: &[
        omitted("User", "user", String),
        omitted("Role", "role", String),
        omitted("Type", "type", String),
        omitted("Level", "level", String),
    ],
};

static SCALE_IO_VOLUME_SOURCE: Type = Type {
    id: 86,
    name: "v1.ScaleIOVolumeSource",
    fields: &[
        kept("Gateway", "gateway", String),
        kept("System", "system", String),
        kept("SecretRef", "secretRef", Pointer(&Struct(&LOCAL_OBJECT_REFERENCE))),
        omitted("SSLEnabled", "sslEnabled", Bool),
        omitted("ProtectionDomain", "protectionDomain", String),
        omitted("StoragePool", "storagePool", String),
        omitted("StorageMode", "storageMode", String),
        omitted("VolumeName", "volumeName", String),
        omitted("FSType", "fsType", String),
        omitted("ReadOnly", "readOnly", Bool),
    ],
};

static SECCOMP_PROFILE: Type = Type {
    id: 87,
    name: "v1.SeccompProfile",
    fields: &[
        kept("Type", "type", String),
        omitted("LocalhostProfile", "localhostProfile", Pointer(&String)),
    ],
};

static SECRET_ENV_SOURCE: Type = Type {
    id: 88,
    name: "v1.SecretEnvSource",
    fields: &[
        embedded("LocalObjectReference", &LOCAL_OBJECT_REFERENCE),
        omitted("Optional", "optional", Pointer(&Bool)),
    ],
};

static SECRET_KEY_SELECTOR: Type = Type {
    id: 89,
    name: "v1.SecretKeySelector",
    fields: &[
        embedded("LocalObjectReference", &LOCAL_OBJECT_REFERENCE),
        kept("Key", "key", String),
        omitted("Optional", "optional", Pointer(&Bool)),
    ],
};

static SECRET_PROJECTION: Type = Type {
    id: 90,
    name: "v1.SecretProjection",
    fields: &[
        embedded("LocalObjectReference", &LOCAL_OBJECT_REFERENCE),
        omitted("Items", "items", List(&Struct(&KEY_TO_PATH))),
        omitted("Optional", "optional", Pointer(&Bool)),
    ],
};

static SECRET_VOLUME_SOURCE: Type = Type {
    id: 91,
    name: "v1.SecretVolumeSource",
    fields: &[
        omitted("SecretName", "secretName", String),
        omitted("Items", "items", List(&Struct(&KEY_TO_PATH))),
        omitted("DefaultMode", "defaultMode", Pointer(&Int(32))),
        omitted("Optional", "optional", Pointer(&Bool)),
    ],
};

static SECURITY_CONTEXT: Type = Type {
    id: 92,
    name: "v1.SecurityContext",
    fields: &[
        omitted("Capabilities", "capabilities", Pointer(&Struct(&CAPABILITIES))),
        omitted("Privileged", "privileged", Pointer(&Bool)),
        omitted("SELinuxOptions", "seLinuxOptions", Pointer(&Struct(&SE_LINUX_OPTIONS))),
        omitted(
            "WindowsOptions",
            "windowsOptions",
            Pointer(&Struct(&WINDOWS_SECURITY_CONTEXT_OPTIONS)),
        ),
        omitted("RunAsUser", "runAsUser", Pointer(&Int(64))),
        omitted("RunAsGroup", "runAsGroup", Pointer(&Int(64))),
        omitted("RunAsNonRoot", "runAsNonRoot", Pointer(&Bool)),
        omitted("ReadOnlyRootFilesystem", "readOnlyRootFilesystem", Pointer(&Bool)),
        omitted("AllowPrivilegeEscalation", "allowPrivilegeEscalation", Pointer(&Bool)),
        omitted("ProcMount", "procMount", Pointer(&String)),
        omitted("SeccompProfile", "seccompProfile", Pointer(&Struct(&SECCOMP_PROFILE))),
        omitted("AppArmorProfile", "appArmorProfile", Pointer(&Struct(&APP_ARMOR_PROFILE))),
    ],
};

static SERVICE_ACCOUNT_TOKEN_PROJECTION: Type = Type {
    id: 93,
    name: "v1.ServiceAccountTokenProjection",
    fields: &[
        omitted("Audience", "audience", String),
        omitted("ExpirationSeconds", "expirationSeconds", Pointer(&Int(64))),
        kept("Path", "path", String),
    ],
};

static SLEEP_ACTION: Type =
    Type { id: 94, name: "v1.SleepAction", fields: &[kept("Seconds", "seconds", Int(64))] };

static STORAGE_OS_VOLUME_SOURCE: Type = Type {
    id: 95,
    name: "v1.StorageOSVolumeSource",
    fields: &[
        omitted("VolumeName", "volumeName", String),
        omitted("VolumeNamespace", "volumeNamespace", String),
        omitted("FSType", "fsType", String),
        omitted("ReadOnly", "readOnly", Bool),
        omitted("SecretRef", "secretRef", Pointer(&Struct(&LOCAL_OBJECT_REFERENCE))),
    ],
};

static SYSCTL: Type = Type {
    id: 96,
    name: "v1.Sysctl",
    fields: &[kept("Name", "name", String), kept("Value", "value", String)],
};

static TCP_SOCKET_ACTION: Type = Type {
    id: 97,
    name: "v1.TCPSocketAction",
    fields: &[kept("Port", "port", IntOrString), omitted("Host", "host", String)],
};

static TOLERATION: Type = Type {
    id: 98,
    name: "v1.Toleration",
    fields: &[
        omitted("Key", "key", String),
        omitted("Operator", "operator", String),
        omitted("Value", "value", String),
        omitted("Effect", "effect", String),
        omitted("TolerationSeconds", "tolerationSeconds", Pointer(&Int(64))),
    ],
};

static TOPOLOGY_SPREAD_CONSTRAINT: Type = Type {
    id: 99,
    name: "v1.TopologySpreadConstraint",
    fields: &[
        kept("MaxSkew", "maxSkew", Int(32)),
        kept("TopologyKey", "topologyKey", String),
        kept("WhenUnsatisfiable", "whenUnsatisfiable", String),
        omitted("LabelSelector", "labelSelector", Pointer(&Struct(&LABEL_SELECTOR))),
        omitted("MinDomains", "minDomains", Pointer(&Int(32))),
        omitted("NodeAffinityPolicy", "nodeAffinityPolicy", Pointer(&String)),
        omitted("NodeTaintsPolicy", "nodeTaintsPolicy", Pointer(&String)),
        omitted("MatchLabelKeys", "matchLabelKeys", STRINGS),
    ],
};

static TYPED_LOCAL_OBJECT_REFERENCE: Type = Type {
    id: 100,
    name: "v1.TypedLocalObjectReference",
    fields: &[
        kept("APIGroup", "apiGroup", Pointer(&String)),
        kept("Kind", "kind", String),
        kept("Name", "name", String),
    ],
};

static TYPED_OBJECT_REFERENCE: Type = Type {
    id: 101,
    name: "v1.TypedObjectReference",
    fields: &[
        kept("APIGroup", "apiGroup", Pointer(&String)),
        kept("Kind", "kind", String),
        kept("Name", "name", String),
        omitted("Namespace", "namespace", Pointer(&String)),
    ],
};

static VOLUME: Type = Type {
    id: 102,
    name: "v1.Volume",
    fields: &[kept("Name", "name", String), embedded("VolumeSource", &VOLUME_SOURCE)],
};

static VOLUME_DEVICE: Type = Type {
    id: 103,
    name: "v1.VolumeDevice",
    fields: &[kept("Name", "name", String), kept("DevicePath", "devicePath", String)],
};

static VOLUME_MOUNT: Type = Type {
    id: 104,
    name: "v1.VolumeMount",
    fields: &[
        kept("Name", "name", String),
        omitted("ReadOnly", "readOnly", Bool),
        omitted("RecursiveReadOnly", "recursiveReadOnly", Pointer(&String)),
        kept("MountPath", "mountPath", String),
        omitted("SubPath", "subPath", String),
        omitted("MountPropagation", "mountPropagation", Pointer(&String)),
        omitted("SubPathExpr", "subPathExpr", String),
    ],
};

static VOLUME_PROJECTION: Type = Type {
    id: 105,
    name: "v1.VolumeProjection",
    fields: &[
        omitted("Secret", "secret", Pointer(&Struct(&SECRET_PROJECTION))),
        omitted("DownwardAPI", "downwardAPI", Pointer(&Struct(&DOWNWARD_API_PROJECTION))),
        omitted("ConfigMap", "configMap", Pointer(&Struct(&CONFIG_MAP_PROJECTION))),
        omitted(
            "ServiceAccountToken",
            "serviceAccountToken",
            Pointer(&Struct(&SERVICE_ACCOUNT_TOKEN_PROJECTION)),
        ),
        omitted(
            "ClusterTrustBundle",
            "clusterTrustBundle",
            Pointer(&Struct(&CLUSTER_TRUST_BUNDLE_PROJECTION)),
        ),
        omitted("PodCertificate", "podCertificate", Pointer(&Struct(&POD_CERTIFICATE_PROJECTION))),
    ],
};

static VOLUME_RESOURCE_REQUIREMENTS: Type = Type {
    id: 106,
    name: "v1.VolumeResourceRequirements",
    fields: &[
        omitted("Limits", "limits", Map(&Quantity)),
        omitted("Requests", "requests", Map(&Quantity)),
    ],
};

static VOLUME_SOURCE: Type = Type {
    id: 107,
    name: "v1.VolumeSource",
    fields: &[
        omitted("HostPath", "hostPath", Pointer(&Struct(&HOST_PATH_VOLUME_SOURCE))),
        omitted("EmptyDir", "emptyDir", Pointer(&Struct(&EMPTY_DIR_VOLUME_SOURCE))),
        omitted(
            "GCEPersistentDisk",
            "gcePersistentDisk",
            Pointer(&Struct(&GCE_PERSISTENT_DISK_VOLUME_SOURCE)),
        ),
        omitted(
            "AWSElasticBlockStore",
            "awsElasticBlockStore",
            Pointer(&Struct(&AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE)),
        ),
        omitted("GitRepo", "gitRepo", Pointer(&Struct(&GIT_REPO_VOLUME_SOURCE))),
        omitted("Secret", "secret", Pointer(&Struct(&SECRET_VOLUME_SOURCE))),
        omitted("NFS", "nfs", Pointer(&Struct(&NFS_VOLUME_SOURCE))),
        omitted("ISCSI", "iscsi", Pointer(&Struct(&ISCSI_VOLUME_SOURCE))),
        omitted("Glusterfs", "glusterfs", Pointer(&Struct(&GLUSTERFS_VOLUME_SOURCE))),
        omitted(
            "PersistentVolumeClaim",
            "persistentVolumeClaim",
            Pointer(&Struct(&PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE)),
        ),
        omitted("RBD", "rbd", Pointer(&Struct(&RBD_VOLUME_SOURCE))),
        omitted("FlexVolume", "flexVolume", Pointer(&Struct(&FLEX_VOLUME_SOURCE))),
        omitted("Cinder", "cinder", Pointer(&Struct(&CINDER_VOLUME_SOURCE))),
        omitted("CephFS", "cephfs", Pointer(&Struct(&CEPH_FS_VOLUME_SOURCE))),
        omitted("Flocker", "flocker", Pointer(&Struct(&FLOCKER_VOLUME_SOURCE))),
        omitted("DownwardAPI", "downwardAPI", Pointer(&Struct(&DOWNWARD_API_VOLUME_SOURCE))),
        omitted("FC", "fc", Pointer(&Struct(&FC_VOLUME_SOURCE))),
        omitted("AzureFile", "azureFile", Pointer(&Struct(&AZURE_FILE_VOLUME_SOURCE))),
        omitted("ConfigMap", "configMap", Pointer(&Struct(&CONFIG_MAP_VOLUME_SOURCE))),
        omitted(
            "VsphereVolume",
            "vsphereVolume",
            Pointer(&Struct(&VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE)),
        ),
        omitted("Quobyte", "quobyte", Pointer(&Struct(&QUOBYTE_VOLUME_SOURCE))),
        omitted("AzureDisk", "azureDisk", Pointer(&Struct(&AZURE_DISK_VOLUME_SOURCE))),
        omitted(
            "PhotonPersistentDisk",
            "photonPersistentDisk",
            Pointer(&Struct(&PHOTON_PERSISTENT_DISK_VOLUME_SOURCE)),
        ),
        omitted("Projected", "projected", Pointer(&Struct(&PROJECTED_VOLUME_SOURCE))),
        omitted("PortworxVolume", "portworxVolume", Pointer(&Struct(&PORTWORX_VOLUME_SOURCE))),
        omitted("ScaleIO", "scaleIO", Pointer(&Struct(&SCALE_IO_VOLUME_SOURCE))),
        omitted("StorageOS", "storageos", Pointer(&Struct(&STORAGE_OS_VOLUME_SOURCE))),
        omitted("CSI", "csi", Pointer(&Struct(&CSI_VOLUME_SOURCE))),
        omitted("Ephemeral", "ephemeral", Pointer(&Struct(&EPHEMERAL_VOLUME_SOURCE))),
        omitted("Image", "image", Pointer(&Struct(&IMAGE_VOLUME_SOURCE))),
    ],
};

static VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE: Type = Type {
    id: 108,
    name: "v1.VsphereVirtualDiskVolumeSource",
    fields: &[
        kept("VolumePath", "volumePath", String),
        omitted("FSType", "fsType", String),
        omitted("StoragePolicyName", "storagePolicyName", String),
        omitted("StoragePolicyID", "storagePolicyID", String),
    ],
};

static WEIGHTED_POD_AFFINITY_TERM: Type = Type {
    id: 109,
    name: "v1.WeightedPodAffinityTerm",
    fields: &[
        kept("Weight", "weight", Int(32)),
        kept("PodAffinityTerm", "podAffinityTerm", Struct(&POD_AFFINITY_TERM)),
    ],
};

static WINDOWS_SECURITY_CONTEXT_OPTIONS: Type = Type {
    id: 110,
    name: "v1.WindowsSecurityContextOptions",
    fields: &[
        omitted("GMSACredentialSpecName", "gmsaCredentialSpecName", Pointer(&String)),
        omitted("GMSACredentialSpec", "gmsaCredentialSpec", Pointer(&String)),
        omitted("RunAsUserName", "runAsUserName", Pointer(&String)),
        omitted("HostProcess", "hostProcess", Pointer(&Bool)),
    ],
};

static WORKLOAD_REFERENCE: Type = Type {
    id: 111,
    name: "v1.WorkloadReference",
    fields: &[
        kept("Name", "name", String),
        kept("PodGroup", "podGroup", String),
        omitted("PodGroupReplicaKey", "podGroupReplicaKey", String),
    ],
};

pub(crate) static ALL: [&Type; 112] = [
    &AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE,
    &AFFINITY,
    &APP_ARMOR_PROFILE,
    &AZURE_DISK_VOLUME_SOURCE,
    &AZURE_FILE_VOLUME_SOURCE,
    &CSI_VOLUME_SOURCE,
    &CAPABILITIES,
    &CEPH_FS_VOLUME_SOURCE,
    &CINDER_VOLUME_SOURCE,
    &CLUSTER_TRUST_BUNDLE_PROJECTION,
    &CONFIG_MAP_ENV_SOURCE,
    &CONFIG_MAP_KEY_SELECTOR,
    &CONFIG_MAP_PROJECTION,
    &CONFIG_MAP_VOLUME_SOURCE,
    &CONTAINER,
    &CONTAINER_PORT,
    &CONTAINER_RESIZE_POLICY,
    &CONTAINER_RESTART_RULE,
    &CONTAINER_RESTART_RULE_ON_EXIT_CODES,
    &DOWNWARD_API_PROJECTION,
    &DOWNWARD_API_VOLUME_FILE,
    &DOWNWARD_API_VOLUME_SOURCE,
    &EMPTY_DIR_VOLUME_SOURCE,
    &ENV_FROM_SOURCE,
    &ENV_VAR,
    &ENV_VAR_SOURCE,
    &EPHEMERAL_CONTAINER,
    &EPHEMERAL_CONTAINER_COMMON,
    &EPHEMERAL_VOLUME_SOURCE,
    &EXEC_ACTION,
    &FC_VOLUME_SOURCE,
    &FILE_KEY_SELECTOR,
    &FLEX_VOLUME_SOURCE,
    &FLOCKER_VOLUME_SOURCE,
    &GCE_PERSISTENT_DISK_VOLUME_SOURCE,
    &GRPC_ACTION,
    &GIT_REPO_VOLUME_SOURCE,
    &GLUSTERFS_VOLUME_SOURCE,
    &HTTP_GET_ACTION,
    &HTTP_HEADER,
    &HOST_ALIAS,
    &HOST_PATH_VOLUME_SOURCE,
    &ISCSI_VOLUME_SOURCE,
    &IMAGE_VOLUME_SOURCE,
    &KEY_TO_PATH,
    &LABEL_SELECTOR,
    &LABEL_SELECTOR_REQUIREMENT,
    &LIFECYCLE,
    &LIFECYCLE_HANDLER,
    &LOCAL_OBJECT_REFERENCE,
    &MANAGED_FIELDS_ENTRY,
    &NFS_VOLUME_SOURCE,
    &NODE_AFFINITY,
    &NODE_SELECTOR,
    &NODE_SELECTOR_REQUIREMENT,
    &NODE_SELECTOR_TERM,
    &OBJECT_FIELD_SELECTOR,
    &OBJECT_META,
    &OWNER_REFERENCE,
    &PERSISTENT_VOLUME_CLAIM_SPEC,
    &PERSISTENT_VOLUME_CLAIM_TEMPLATE,
    &PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE,
    &PHOTON_PERSISTENT_DISK_VOLUME_SOURCE,
    &POD_AFFINITY,
    &POD_AFFINITY_TERM,
    &POD_ANTI_AFFINITY,
    &POD_CERTIFICATE_PROJECTION,
    &POD_DNS_CONFIG,
    &POD_DNS_CONFIG_OPTION,
    &POD_OS,
    &POD_READINESS_GATE,
    &POD_RESOURCE_CLAIM,
    &POD_SCHEDULING_GATE,
    &POD_SECURITY_CONTEXT,
    &POD_SPEC,
    &PORTWORX_VOLUME_SOURCE,
    &PREFERRED_SCHEDULING_TERM,
    &PROBE,
    &PROBE_HANDLER,
    &PROJECTED_VOLUME_SOURCE,
    &QUOBYTE_VOLUME_SOURCE,
    &RBD_VOLUME_SOURCE,
    &RESOURCE_CLAIM,
    &RESOURCE_FIELD_SELECTOR,
    &RESOURCE_REQUIREMENTS,
    &SE_LINUX_OPTIONS,
    &SCALE_IO_VOLUME_SOURCE,
    &SECCOMP_PROFILE,
    &SECRET_ENV_SOURCE,
    &SECRET_KEY_SELECTOR,
    &SECRET_PROJECTION,
    &SECRET_VOLUME_SOURCE,
    &SECURITY_CONTEXT,
    &SERVICE_ACCOUNT_TOKEN_PROJECTION,
    &SLEEP_ACTION,
    &STORAGE_OS_VOLUME_SOURCE,
    &SYSCTL,
    &TCP_SOCKET_ACTION,
    &TOLERATION,
    &TOPOLOGY_SPREAD_CONSTRAINT,
    &TYPED_LOCAL_OBJECT_REFERENCE,
    &TYPED_OBJECT_REFERENCE,
    &VOLUME,
    &VOLUME_DEVICE,
    &VOLUME_MOUNT,
    &VOLUME_PROJECTION,
    &VOLUME_RESOURCE_REQUIREMENTS,
    &VOLUME_SOURCE,
    &VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE,
    &WEIGHTED_POD_AFFINITY_TERM,
    &WINDOWS_SECURITY_CONTEXT_OPTIONS,
    &WORKLOAD_REFERENCE,
];
