//! Formats of access logs: our verdict is the one of the real Envoy.

use std::collections::BTreeMap;

use e2e::envoy::Envoy;
use e2e::http;
use e2e::run_folder::RunFolder;
use pilot_routing::access_log::{check_text, check_value};
use serde_json::{Value, json};

#[test]
fn formats_are_valid_if_envoy_takes_them() {
    let operators = OPERATORS.split_whitespace().flat_map(|name| {
        ["", "(X-A)", ":5", "(X-A):5", "()"].map(|rest| format!("%{name}{rest}%"))
    });
    let texts = operators.chain(FORMATS.map(str::to_owned));
    let formats: Vec<Value> = texts.map(Value::from).chain(json_formats()).collect();
    let ours = formats.iter().map(|format| match format {
        Value::String(text) => check_text(text),
        format => check_value(format),
    });
    for ((format, ours), envoys) in formats.iter().zip(ours).zip(verdicts(&formats)) {
        assert_eq!(ours.is_ok(), envoys.is_none(), "{format}: {ours:?}, Envoy: {envoys:?}");
    }
}

/// Envoy's errors about listeners with these formats.
fn verdicts(formats: &[Value]) -> Vec<Option<String>> {
    let folder = RunFolder::of_process().unwrap();
    let listeners: Vec<_> = formats.iter().enumerate().map(listener).collect();
    let file = folder.write("listeners.json", json!({"resources": listeners}).to_string()).unwrap();
    let bootstrap = json!({
        "node": {"id": "test", "cluster": "test"},
        "dynamic_resources": {"lds_config": {"path_config_source": {"path": file}}},
        "static_resources": {"clusters": [{"name": "none", "type": "STATIC"}]},
    });
    let mut envoy = Envoy::start(&folder, "envoy", bootstrap).unwrap();
    let admin = envoy.admin();
    let dump = || -> anyhow::Result<BTreeMap<String, Option<String>>> {
        let page = http::get(admin, "/config_dump?resource=dynamic_listeners")?.expect_ok()?;
        let dump: Value = serde_json::from_str(&page)?;
        let found: BTreeMap<_, _> =
            dump["configs"].as_array().into_iter().flatten().map(verdict).collect();
        anyhow::ensure!(found.len() == formats.len(), "{} of {}", found.len(), formats.len());
        Ok(found)
    };
    let mut found = envoy.wait_until("the verdicts", dump).unwrap();
    (0..formats.len()).map(|number| found.remove(&number.to_string()).unwrap()).collect()
}

/// Name of a listener, and Envoy's error about it.
fn verdict(listener: &Value) -> (String, Option<String>) {
    let error = &listener["error_state"];
    let name = listener["name"].as_str().or(error["failed_configuration"]["name"].as_str());
    (name.unwrap().to_owned(), error["details"].as_str().map(str::to_owned))
}

fn listener((number, format): (usize, &Value)) -> Value {
    let format = match format {
        Value::String(text) => json!({"text_format_source": {"inline_string": text}}),
        format => json!({"json_format": format}),
    };
    json!({
        "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
        "name": number.to_string(),
        "bind_to_port": false,
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": number + 1}},
        "access_log": [{"name": "log", "typed_config": {
            "@type":
                "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
            "path": "/dev/null",
            "log_format": format,
        }}],
        "filter_chains": [{"filters": [{"name": "tcp", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
            "stat_prefix": "tcp",
            "cluster": "none",
        }}]}],
    })
}

fn json_formats() -> impl Iterator<Item = Value> {
    [
        json!({"a": "%DURATION%"}),
        json!({"a": "%NOPE%"}),
        json!({"a": {"b": ["%DURATION%", 1, null, true]}}),
        json!({"a": ["%NOPE%"]}),
        json!({"%NOPE%": "x"}),
        json!({}),
    ]
    .into_iter()
}

/// A name of each sort, and some that do not exist.
const OPERATORS: &str = "ACCESS_LOG_TYPE BYTES_SENT DURATION PROTOCOL UPSTREAM_HOST \
    VIRTUAL_CLUSTER_NAME START_TIME EMIT_TIME_LOCAL RESPONSE_CODE_DETAILS \
    DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT REQ RESP TRAILER STREAM_INFO_REQ REQUEST_HEADER \
    DYNAMIC_METADATA ENVIRONMENT QUERY_PARAM CLUSTER_METADATA UPSTREAM_METADATA METADATA \
    FILTER_STATE UPSTREAM_FILTER_STATE COMMON_DURATION PATH QUERY_PARAMS GRPC_STATUS \
    NOPE DURATIONS TIME";

const FORMATS: [&str; 244] = [
    "",
    "plain",
    "%",
    "%%",
    "100%",
    "%%REQ",
    "a%%b%DURATION%",
    "%DURATION",
    "%duration%",
    "%DURATION%%",
    "%DURATION %",
    "% DURATION%",
    "%REQ(A%",
    "%REQ(A)B%",
    "%REQ(A?B)%",
    "%REQ(A?B?C)%",
    "%REQ(?B)%",
    "%REQ(A?)%",
    "%REQ()%",
    "%REQ(:METHOD):10%",
    "%REQ(A):0%",
    "%REQ(A):x%",
    "%REQ(A):%",
    "%REQ(A):99999999999999999999999%",
    "%REQ(A B)%",
    "%REQ(A\n)%",
    "%REQ(A(b))%",
    "%REQ(A))%",
    "%REQ(A%B)%",
    "%START_TIME(%Y-%m-%d)%",
    "%START_TIME(%s.%3f)%",
    "%START_TIME(%Y/%m/%dT%H:%M:%S%z %s)%",
    "%START_TIME(%E4n)%",
    "%START_TIME(%1f%2f%9f)%",
    "%START_TIME(a)%",
    "%START_TIME(%)%",
    "%START_TIME()%",
    "%DURATION():5%",
    "%UNKNOWN_OP%",
    "%UNKNOWN_OP(X)%",
    "%RESPONSE_FLAGS_LONG%",
    "%FILTER_STATE(a)%",
    "%FILTER_STATE(a:PLAIN)%",
    "%FILTER_STATE(a:TYPED)%",
    "%FILTER_STATE(a:FIELD:b)%",
    "%FILTER_STATE(a:BAD)%",
    "%FILTER_STATE(a:PLAIN:x)%",
    "%FILTER_STATE(a:FIELD)%",
    "%FILTER_STATE()%",
    "%DYNAMIC_METADATA(a:b:c)%",
    "%DYNAMIC_METADATA()%",
    "%METADATA(CLUSTER:a:b)%",
    "%METADATA(LISTENER:a)%",
    "%METADATA(BAD:a)%",
    "%METADATA(DYNAMIC)%",
    "%COMMON_DURATION(DS_RX_BEG:DS_TX_END:us)%",
    "%COMMON_DURATION(DS_RX_BEG:DS_TX_END:xx)%",
    "%COMMON_DURATION(DS_RX_BEG:DS_TX_END)%",
    "%COMMON_DURATION(foo:bar:ms)%",
    "%DOWNSTREAM_PEER_CERT_V_START(%Y)%",
    "%ENVIRONMENT(HOME)%",
    "%ENVIRONMENT(HOME):3%",
    "%QUERY_PARAM(a)%",
    "%QUERY_PARAM(a):3%",
    "%QUERY_PARAMS(ORIG)%",
    "%QUERY_PARAMS(X)%",
    "%PATH(WQ:PATH)%",
    "%PATH(NQ)%",
    "%PATH(XX)%",
    "%PATH(WQ:XX)%",
    "%PATH(WQ:PATH:5)%",
    "%GRPC_STATUS(NUMBER)%",
    "%GRPC_STATUS(X)%",
    "%GRPC_STATUS%",
    "%GRPC_STATUS_NUMBER%",
    "%TRACE_ID%",
    "%SPAN_ID%",
    "%REQ(A)%REQ(B)%",
    "%DURATION%:5",
    "é%DURATION%",
    "\0",
    "%REQ(é)%",
    "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH):5%",
    "%TRAILER(a)%",
    "%RESP(a?b):9%",
    "%UPSTREAM_METADATA([\"a\",\"b\"])%",
    "%UPSTREAM_METADATA(a:b)%",
    "%DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT(X)%",
    "%FILE_CONTENT(/etc/hostname)%",
    "%SECRET(x)%",
    "%COMMON_DURATION(a:b:s)%",
    "%COMMON_DURATION(a:b:ms)%",
    "%COMMON_DURATION(a:b:us)%",
    "%COMMON_DURATION(a:b:ns)%",
    "%COMMON_DURATION(a:b:)%",
    "%COMMON_DURATION(a)%",
    "%COMMON_DURATION(a:b:ms:c)%",
    "%COMMON_DURATION(:)%",
    "%COMMON_DURATION(a:)%",
    "%METADATA(DYNAMIC:a)%",
    "%METADATA(CLUSTER:a)%",
    "%METADATA(ROUTE:a)%",
    "%METADATA(UPSTREAM_HOST:a)%",
    "%METADATA(VIRTUAL_HOST:a)%",
    "%METADATA(LISTENER_FILTER_CHAIN:a)%",
    "%METADATA(:a)%",
    "%METADATA(LISTENER:a):5%",
    "%METADATA(LISTENER:)%",
    "%METADATA(listener:a)%",
    "%FILTER_STATE(:PLAIN)%",
    "%FILTER_STATE(a:FIELD:)%",
    "%FILTER_STATE(a:FIELD:b:c)%",
    "%FILTER_STATE(a:)%",
    "%FILTER_STATE(a):5%",
    "%UPSTREAM_FILTER_STATE(a:BAD)%",
    "%PATH()%",
    "%PATH(WQ:)%",
    "%PATH(WQ):5%",
    "%PATH(:ORIG)%",
    "%PATH(NQ:ORIG_OR_PATH)%",
    "%PATH(NQ:ORIG:x:y)%",
    "%QUERY_PARAMS(DECODED):4%",
    "%QUERY_PARAMS()%",
    "%GRPC_STATUS(CAMEL_STRING)%",
    "%GRPC_STATUS(SNAKE_STRING)%",
    "%GRPC_STATUS():5%",
    "%GRPC_STATUS(NUMBER):5%",
    "%GRPC_STATUS:5%",
    "%REQ(A_b.c-d:/!#$&'*+~^`|=@;,\"{}[]<>\\)%",
    "%REQ( A)%",
    "%REQ(A!b)%",
    "%REQ(A\"b)%",
    "%REQ(A#b)%",
    "%REQ(A$b)%",
    "%REQ(A%b)%",
    "%REQ(A&b)%",
    "%REQ(A'b)%",
    "%REQ(A(b)%",
    "%REQ(A)b)%",
    "%REQ(A*b)%",
    "%REQ(A+b)%",
    "%REQ(A,b)%",
    "%REQ(A-b)%",
    "%REQ(A.b)%",
    "%REQ(A/b)%",
    "%REQ(A0b)%",
    "%REQ(A1b)%",
    "%REQ(A2b)%",
    "%REQ(A3b)%",
    "%REQ(A4b)%",
    "%REQ(A5b)%",
    "%REQ(A6b)%",
    "%REQ(A7b)%",
    "%REQ(A8b)%",
    "%REQ(A9b)%",
    "%REQ(A:b)%",
    "%REQ(A;b)%",
    "%REQ(A<b)%",
    "%REQ(A=b)%",
    "%REQ(A>b)%",
    "%REQ(A?b)%",
    "%REQ(A@b)%",
    "%REQ(AAb)%",
    "%REQ(ABb)%",
    "%REQ(ACb)%",
    "%REQ(ADb)%",
    "%REQ(AEb)%",
    "%REQ(AFb)%",
    "%REQ(AGb)%",
    "%REQ(AHb)%",
    "%REQ(AIb)%",
    "%REQ(AJb)%",
    "%REQ(AKb)%",
    "%REQ(ALb)%",
    "%REQ(AMb)%",
    "%REQ(ANb)%",
    "%REQ(AOb)%",
    "%REQ(APb)%",
    "%REQ(AQb)%",
    "%REQ(ARb)%",
    "%REQ(ASb)%",
    "%REQ(ATb)%",
    "%REQ(AUb)%",
    "%REQ(AVb)%",
    "%REQ(AWb)%",
    "%REQ(AXb)%",
    "%REQ(AYb)%",
    "%REQ(AZb)%",
    "%REQ(A[b)%",
    "%REQ(A\\b)%",
    "%REQ(A]b)%",
    "%REQ(A^b)%",
    "%REQ(A_b)%",
    "%REQ(A`b)%",
    "%REQ(Aab)%",
    "%REQ(Abb)%",
    "%REQ(Acb)%",
    "%REQ(Adb)%",
    "%REQ(Aeb)%",
    "%REQ(Afb)%",
    "%REQ(Agb)%",
    "%REQ(Ahb)%",
    "%REQ(Aib)%",
    "%REQ(Ajb)%",
    "%REQ(Akb)%",
    "%REQ(Alb)%",
    "%REQ(Amb)%",
    "%REQ(Anb)%",
    "%REQ(Aob)%",
    "%REQ(Apb)%",
    "%REQ(Aqb)%",
    "%REQ(Arb)%",
    "%REQ(Asb)%",
    "%REQ(Atb)%",
    "%REQ(Aub)%",
    "%REQ(Avb)%",
    "%REQ(Awb)%",
    "%REQ(Axb)%",
    "%REQ(Ayb)%",
    "%REQ(Azb)%",
    "%REQ(A{b)%",
    "%REQ(A|b)%",
    "%REQ(A}b)%",
    "%REQ(A~b)%",
    "%STREAM_INFO_REQ(a b)%",
    "%STREAM_INFO_REQ(a?b?c)%",
    "%ENVIRONMENT(a b)%",
    "%QUERY_PARAM(a b)%",
    "%DYNAMIC_METADATA(a b)%",
    "%DYNAMIC_METADATA(:)%",
    "%CLUSTER_METADATA(:a)%",
    "%REQ(A):18446744073709551615%",
    "%REQ(A):18446744073709551616%",
    "%REQ(A):4294967296%",
    "%REQ(a)%%RESP(b)%",
    "%%%DURATION%",
    "%START_TIME(a\nb)%",
    "%START_TIME(%Y(a)b)%",
    "%REQ(a):5:6%",
    "%FILTER_STATE(a:PLAIN:)%",
    "%REQ(:path?:x)%",
    "%REQ(a?/)%",
    "%REQ(::a)%",
    "%REQ(:)%",
];
