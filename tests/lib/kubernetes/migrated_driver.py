"""A CSI driver that has replaced an in-tree plugin: it does nothing, keeps the requests, and answers as such a driver does."""
from google.protobuf import json_format

from lib.proto_messages import csi
from lib.kubernetes.csi_proxy import CsiServer

RPCS = ("CREATE_DELETE_VOLUME", "PUBLISH_UNPUBLISH_VOLUME", "PUBLISH_READONLY", "EXPAND_VOLUME")
LISTS = ("LIST_VOLUMES", "LIST_VOLUMES_PUBLISHED_NODES")
MAPS = ("parameters", "secrets", "segments", "volume_context")


def show_empty(value):
    """Gives a request with its maps as texts, and an empty message as one."""
    if isinstance(value, list):
        return [show_empty(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: [f"{name}={text}" for name, text in sorted(each.items())] if key in MAPS else show_empty(each)
            for key, each in value.items()} or "empty"


class MigratedDriver:
    """For World(double=...). `lists`: it says in ListVolumes to which nodes a volume is published, as `published` has it:
    {volume: [node ids]}. `handle`, `context` and `places` are its answers to CreateVolume, and may be changed."""

    def __init__(self, folder, plugin, lists=False):
        self.socket = folder / "csi.sock"
        self.plugin = plugin
        self.lists = lists
        self.published = {}
        self.handle, self.context, self.places = plugin.handle, plugin.context, plugin.places
        self._server = None

    def start(self):
        self._server = _Server(self)
        return self

    def stop(self):
        if self._server is not None:
            self._server.close()

    def messages(self, method):
        """As CsiServer.messages, but shows what is empty, which records leave out."""
        return [show_empty(message) for message in self._server.messages(method)]

    # -- answers, by method, as JSON

    def get_plugin_info(self, _):
        return {"name": self.plugin.driver, "vendor_version": "1"}

    def get_plugin_capabilities(self, _):
        services = ["CONTROLLER_SERVICE", *(["VOLUME_ACCESSIBILITY_CONSTRAINTS"] if self.plugin.node_topology else [])]
        return {"capabilities": [*({"service": {"type": name}} for name in services), {"volume_expansion": {"type": "ONLINE"}}]}

    def probe(self, _):
        return {"ready": True}

    def controller_get_capabilities(self, _):
        return {"capabilities": [{"rpc": {"type": name}} for name in (*RPCS, *(LISTS if self.lists else ()))]}

    def create_volume(self, request):
        def fill(text):
            return text.replace("@VOLUME@", request.name)

        return {"volume": {"volume_id": fill(self.handle), "capacity_bytes": request.capacity_range.required_bytes,
                           "volume_context": {key: fill(value) for key, value in self.context.items()},
                           "accessible_topology": [{"segments": place} for place in self.places]}}

    def delete_volume(self, _):
        return {}

    def controller_publish_volume(self, _):
        return {"publish_context": {"devicePath": "/dev/xvda"}}

    def controller_unpublish_volume(self, _):
        return {}

    def controller_expand_volume(self, request):
        return {"capacity_bytes": request.capacity_range.required_bytes, "node_expansion_required": self.plugin.node_grows}

    def list_volumes(self, _):
        return {"entries": [{"volume": {"volume_id": volume}, "status": {"published_node_ids": nodes}}
                            for volume, nodes in dict(self.published).items()]}


ANSWERS = {"GetPluginInfo": MigratedDriver.get_plugin_info, "GetPluginCapabilities": MigratedDriver.get_plugin_capabilities,
           "Probe": MigratedDriver.probe, "ControllerGetCapabilities": MigratedDriver.controller_get_capabilities,
           "CreateVolume": MigratedDriver.create_volume, "DeleteVolume": MigratedDriver.delete_volume,
           "ControllerPublishVolume": MigratedDriver.controller_publish_volume,
           "ControllerUnpublishVolume": MigratedDriver.controller_unpublish_volume,
           "ControllerExpandVolume": MigratedDriver.controller_expand_volume, "ListVolumes": MigratedDriver.list_volumes}


class _Server(CsiServer):
    def __init__(self, driver):
        self._driver = driver
        super().__init__(driver.socket)

    def service(self, handler_call_details):
        """Methods that the driver lacks are answered with UNIMPLEMENTED."""
        known = handler_call_details.method.rpartition("/")[2] in ANSWERS
        return super().service(handler_call_details) if known else None

    def answer(self, path, method, request, context):
        answer = ANSWERS[method](self._driver, getattr(csi, f"{method}Request").FromString(request))
        return json_format.ParseDict(answer, getattr(csi, f"{method}Response")()).SerializeToString()
