//! Values of the chart that no component has: fields of objects, and the settings of injection.

use anyhow::{Result, bail, ensure};

use crate::tree::{Guard, Item, Tree};

/// Template text for a place in objects. `PROGRAM` and `GROUP` are a program and its group of
/// values; `INDENT` is the indentation of the text, `DEEPER` that of the next level.
struct Parameter {
    /// Kind and name of the objects; without a name, all of the kind.
    object: &'static str,
    /// Keys down to the map or list. `*` is each element of a list.
    path: &'static [&'static str],
    placement: Placement,
    text: &'static str,
}

enum Placement {
    /// At the end of the map or list.
    Added,
    /// In place of the entry of this key.
    InPlace(&'static str),
    /// In place of the entry of this key if the value is set.
    Preferred(&'static str, &'static str),
}

/// Puts the values into the objects.
pub(crate) fn place(objects: &mut [Item]) -> Result<()> {
    for parameter in OF_OBJECTS {
        parameter.place(objects, "", "")?;
    }
    for (program, group) in [("sidecar-injector", "injector"), ("pilot-discovery", "pilot")] {
        for parameter in OF_PROGRAMS {
            parameter.place(objects, program, group)?;
        }
    }
    for object in objects.iter_mut().filter(|item| item.key.starts_with("CustomResource")) {
        object.guards.push(Guard::If("$.Values.crds.enabled"));
    }
    Ok(())
}

impl Parameter {
    fn place(&self, objects: &mut [Item], program: &str, group: &str) -> Result<()> {
        let name = self.object.replace("PROGRAM", program);
        let text = self.text.replace("GROUP", group);
        let mut places = 0;
        for object in objects.iter_mut().filter(|item| item.key.starts_with(&name)) {
            let mut put = |items: &mut Vec<Item>| {
                let block = Tree::Block(text.clone());
                let added = Item { key: String::new(), guards: Vec::new(), tree: block.clone() };
                match self.placement {
                    Placement::Added => items.push(added),
                    Placement::InPlace(key) => {
                        let Some(item) = items.iter_mut().find(|item| item.key == key) else {
                            return;
                        };
                        item.tree = block;
                    }
                    Placement::Preferred(key, value) => {
                        let value = value.replace("GROUP", group);
                        for item in items.iter_mut().filter(|item| item.key == key) {
                            item.guards.push(Guard::Unset(value.clone()));
                        }
                        items.push(added);
                    }
                }
                places += 1;
            };
            visit(&mut object.tree, self.path, &mut put)?;
        }
        ensure!(places > 0, "no {name} has {:?}", self.path);
        Ok(())
    }
}

/// Calls a function with the items at each place of a path.
fn visit(tree: &mut Tree, path: &[&str], put: &mut dyn FnMut(&mut Vec<Item>)) -> Result<()> {
    let items = match tree {
        Tree::Map(items) | Tree::List(items) => items,
        Tree::Scalar(_) | Tree::Block(_) => bail!("{tree:?} ends before {path:?}"),
    };
    let Some((key, rest)) = path.split_first() else {
        put(items);
        return Ok(());
    };
    for item in items.iter_mut().filter(|item| *key == "*" || item.key == *key) {
        if !matches!(item.tree, Tree::Block(_) | Tree::Scalar(_)) {
            visit(&mut item.tree, rest, put)?;
        }
    }
    Ok(())
}

const fn parameter(
    object: &'static str,
    path: &'static [&'static str],
    placement: Placement,
    text: &'static str,
) -> Parameter {
    Parameter { object, path, placement, text }
}

const POD: &[&str] = &["spec", "template", "spec"];
const CONTAINER: &[&str] = &["spec", "template", "spec", "containers", "*"];

/// Parameters of the injector and of the control plane.
const OF_PROGRAMS: [Parameter; 17] = [
    parameter(
        "Deployment PROGRAM",
        &["spec"],
        Placement::InPlace("replicas"),
        "replicas: {{ $.Values.GROUP.replicaCount }}",
    ),
    parameter(
        "HorizontalPodAutoscaler PROGRAM",
        &["spec"],
        Placement::InPlace("minReplicas"),
        "minReplicas: {{ $.Values.GROUP.autoscaleMin }}",
    ),
    parameter(
        "HorizontalPodAutoscaler PROGRAM",
        &["spec"],
        Placement::InPlace("maxReplicas"),
        "maxReplicas: {{ $.Values.GROUP.autoscaleMax }}",
    ),
    parameter(
        "Deployment PROGRAM",
        &["spec", "template", "metadata"],
        Placement::Added,
        "\
{{- with $.Values.GROUP.podAnnotations }}
annotations:
  {{- toYaml . | nindent DEEPER }}
{{- end }}",
    ),
    parameter(
        "Deployment PROGRAM",
        &["spec", "template", "metadata", "labels"],
        Placement::Added,
        "\
{{- with $.Values.GROUP.podLabels }}
{{- toYaml . | nindent INDENT }}
{{- end }}",
    ),
    parameter(
        "Deployment PROGRAM",
        POD,
        Placement::Preferred("affinity", "$.Values.GROUP.affinity"),
        "\
{{- with $.Values.GROUP.affinity }}
affinity:
  {{- toYaml . | nindent DEEPER }}
{{- end }}",
    ),
    parameter(
        "Deployment PROGRAM",
        POD,
        Placement::Added,
        "\
{{- with $.Values.GROUP.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent DEEPER }}
{{- end }}",
    ),
    parameter(
        "Deployment PROGRAM",
        POD,
        Placement::Preferred("tolerations", "$.Values.GROUP.tolerations"),
        "\
{{- with $.Values.GROUP.tolerations }}
tolerations:
{{- toYaml . | nindent INDENT }}
{{- end }}",
    ),
    parameter(
        "Deployment PROGRAM",
        POD,
        Placement::Preferred("priorityClassName", "$.Values.global.priorityClassName"),
        "\
{{- with $.Values.global.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}",
    ),
    parameter(
        "Deployment PROGRAM",
        CONTAINER,
        Placement::InPlace("image"),
        "image: {{ include \"outrigger.image\" (list $ $.Values.GROUP.image) | quote }}",
    ),
    parameter(
        "Deployment PROGRAM",
        CONTAINER,
        Placement::Added,
        "\
{{- with $.Values.global.imagePullPolicy }}
imagePullPolicy: {{ . | quote }}
{{- end }}",
    ),
    parameter(
        "Deployment PROGRAM",
        CONTAINER,
        Placement::InPlace("resources"),
        "\
resources:
  {{- toYaml $.Values.GROUP.resources | nindent DEEPER }}",
    ),
    parameter(
        "Deployment PROGRAM",
        &["spec", "template", "spec", "containers", "*", "args"],
        Placement::Added,
        "\
{{- range $.Values.GROUP.extraContainerArgs }}
- {{ . | quote }}
{{- end }}",
    ),
    parameter(
        "ServiceAccount PROGRAM",
        &[],
        Placement::Added,
        "\
{{- with $.Values.global.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . | quote }}
{{- end }}
{{- end }}",
    ),
    parameter(
        "ServiceAccount PROGRAM",
        &["metadata"],
        Placement::Added,
        "\
{{- with $.Values.GROUP.serviceAccountAnnotations }}
annotations:
  {{- toYaml . | nindent DEEPER }}
{{- end }}",
    ),
    parameter(
        "NetworkPolicy PROGRAM",
        &["spec", "ingress", "*", "from", "*", "namespaceSelector", "matchLabels"],
        Placement::InPlace("kubernetes.io/metadata.name"),
        "kubernetes.io/metadata.name: {{ $.Values.networkPolicy.monitoringNamespace | quote }}",
    ),
    parameter(
        "Deployment PROGRAM",
        &["metadata"],
        Placement::Added,
        "\
{{- with $.Values.GROUP.deploymentAnnotations }}
annotations:
  {{- toYaml . | nindent DEEPER }}
{{- end }}",
    ),
];

const OF_OBJECTS: [Parameter; 8] = [
    parameter(
        "Deployment sidecar-injector",
        &["spec", "template", "spec", "containers", "*", "env"],
        Placement::Added,
        "\
{{- range $name, $value := $.Values.injector.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}",
    ),
    parameter(
        "Deployment pilot-discovery",
        CONTAINER,
        Placement::Added,
        "\
{{- with $.Values.pilot.env }}
env:
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}",
    ),
    parameter(
        "MutatingWebhookConfiguration",
        &["webhooks", "*"],
        Placement::InPlace("reinvocationPolicy"),
        "reinvocationPolicy: {{ $.Values.sidecarInjectorWebhook.reinvocationPolicy }}",
    ),
    parameter(
        "MutatingWebhookConfiguration",
        &["webhooks", "*"],
        Placement::InPlace("timeoutSeconds"),
        "timeoutSeconds: {{ $.Values.sidecarInjectorWebhook.timeoutSeconds }}",
    ),
    parameter("ConfigMap istio", &["data"], Placement::InPlace("mesh"), SETTINGS_MESH),
    parameter("ConfigMap istio-sidecar", &["data"], Placement::InPlace("config"), SETTINGS_CONFIG),
    parameter("ConfigMap istio-sidecar", &["data"], Placement::InPlace("values"), SETTINGS_VALUES),
    parameter(
        "CustomResourceDefinition",
        &["metadata"],
        Placement::Added,
        "\
annotations:
  # Else `helm uninstall` deletes every object of the kind.
  helm.sh/resource-policy: keep",
    ),
];

const SETTINGS_MESH: &str = "\
mesh: |
  {{- include \"outrigger.mesh\" $ | nindent DEEPER }}";
const SETTINGS_CONFIG: &str = "\
config: |
  {{- include \"outrigger.config\" $ | nindent DEEPER }}";
const SETTINGS_VALUES: &str = "\
values: |
  {{- include \"outrigger.values\" $ | nindent DEEPER }}";
