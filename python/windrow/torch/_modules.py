"""Nets of torch.nn as native nets with the same weights, and back."""
import torch
import torch.nn as nn

import windrow as wr
from windrow import Error

from .._layouts import load_torch_state_dict, torch_state_dict


def _one(value, what):
    values = set(value) if isinstance(value, (tuple, list)) else {value}
    if len(values) != 1:
        raise Error(f"from_module: {what}: {tuple(value)} differs by axis; windrow.torch.compile runs the module as it is")
    return values.pop()


def _conv(kind):
    def make(m, where):
        if m.padding_mode != "zeros" or getattr(m, "output_padding", (0,)) not in ((0,), (0, 0)):
            raise Error(f"from_module: {where}: padding_mode and output_padding have no counterpart")
        padding = m.padding if isinstance(m.padding, str) else _one(m.padding, where)
        return kind(m.in_channels, m.out_channels, _one(m.kernel_size, where), padding=padding, stride=_one(m.stride, where),
                    dilation=_one(m.dilation, where), groups=m.groups, bias=m.bias is not None)
    return make


def _pool(kind):
    def make(m, where):
        if m.ceil_mode or _one(getattr(m, "dilation", 1), where) != 1:
            raise Error(f"from_module: {where}: ceil_mode and dilation have no counterpart")
        return kind(_one(m.kernel_size, where), stride=_one(m.stride, where), padding=_one(m.padding, where))
    return make


def _batch_norm(m, where):
    if m.momentum is None or not m.track_running_stats:
        raise Error(f"from_module: {where}: a batch norm without running statistics or momentum has no counterpart")
    return wr.nn.BatchNorm(m.num_features, epsilon=m.eps, momentum=m.momentum, affine=m.affine)


def _layer_norm(m, where):
    if len(m.normalized_shape) != 1 or (m.elementwise_affine and m.bias is None):
        raise Error(f"from_module: {where}: a layer norm over the last axis alone, with scale and shift")
    return wr.nn.LayerNorm(m.normalized_shape[0], epsilon=m.eps, affine=m.elementwise_affine)


def _flatten(m, where):
    if m.start_dim != 1 or m.end_dim != -1:
        raise Error(f"from_module: {where}: Flatten(1, -1) alone")
    return wr.nn.Flatten()


def _flatten_images(x):
    """In torch's order, channels first, so that what follows keeps its weights."""
    return wr.flatten(wr.permute(x, [0, x.ndim - 1, *range(1, x.ndim - 1)]), 1) if x.ndim > 2 else x


def _global_pool(m, where):
    if _one(m.output_size, where) != 1:
        raise Error(f"from_module: {where}: an adaptive pool to one value alone")
    return wr.nn.GlobalAvgPool()


def _activation(make, **defaults):
    def checked(m, where):
        for name, value in defaults.items():
            if getattr(m, name) != value:
                raise Error(f"from_module: {where}: {name}={getattr(m, name)!r} has no counterpart, {value!r} has")
        return make()
    return checked


LAYERS = {
    nn.Linear: lambda m, where: wr.nn.Dense(m.in_features, m.out_features, bias=m.bias is not None),
    nn.Conv1d: _conv(wr.nn.Conv1D), nn.Conv2d: _conv(wr.nn.Conv2D), nn.ConvTranspose2d: _conv(wr.nn.ConvTranspose2D),
    nn.MaxPool2d: _pool(wr.nn.MaxPool), nn.AvgPool2d: _pool(wr.nn.AvgPool), nn.AdaptiveAvgPool2d: _global_pool,
    nn.BatchNorm1d: _batch_norm, nn.BatchNorm2d: _batch_norm, nn.LayerNorm: _layer_norm,
    nn.GroupNorm: lambda m, where: wr.nn.GroupNorm(m.num_groups, m.num_channels, epsilon=m.eps, affine=m.affine),
    nn.Embedding: lambda m, where: wr.nn.Embedding(m.num_embeddings, m.embedding_dim),
    nn.Dropout: lambda m, where: wr.nn.Dropout(m.p), nn.Flatten: _flatten,
    nn.ReLU: _activation(wr.nn.Relu), nn.ReLU6: _activation(wr.nn.Relu6), nn.Tanh: _activation(wr.nn.Tanh),
    nn.Sigmoid: _activation(wr.nn.Sigmoid), nn.SiLU: _activation(wr.nn.Silu), nn.GELU: _activation(wr.nn.Gelu, approximate="none"),
    nn.ELU: _activation(wr.nn.Elu, alpha=1.0), nn.Softplus: _activation(wr.nn.Softplus, beta=1),
    nn.LeakyReLU: lambda m, where: wr.nn.LeakyRelu(m.negative_slope),
    nn.Identity: lambda m, where: wr.nn.Lambda(lambda x: x, "Identity"),
}
_IMAGES = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d, nn.MaxPool2d, nn.AvgPool2d, nn.BatchNorm2d)


def _convert(module, where, images):
    """(native layer, whether its values are images with channels last)"""
    if type(module) is nn.Sequential:
        parts = {}
        for name, part in module.named_children():
            parts[name], images = _convert(part, f"{where}.{name}" if where else name, images)
        return wr.nn.Sequential(**parts), images
    if type(module) not in LAYERS:
        raise Error(f"from_module: {where or 'the module'}: {type(module).__name__} has no counterpart. There are Sequential and "
                    + ", ".join(sorted(t.__name__ for t in LAYERS)) + ". windrow.torch.compile runs any module as it is")
    if type(module) is nn.Flatten and images:
        _flatten(module, where)
        return wr.nn.Lambda(_flatten_images, "Flatten"), False
    layer = LAYERS[type(module)](module, where or type(module).__name__)
    images = images or isinstance(module, _IMAGES)
    return layer, images and not isinstance(module, (nn.Flatten, nn.AdaptiveAvgPool2d))


def from_module(module):
    """A native net with the structure and a copy of the weights of a torch module: Sequential and its layers, nested at will.

    Native nets take images as [batch, height, width, channels]. Its states are named by the same paths, so
    windrow.nn.save_torch(path, net) writes a file that the torch module reads, and to_module() brings trained weights back.
    """
    for name, p in module.named_parameters():
        if p.dtype != torch.float32:
            raise Error(f"from_module: {name} is {p.dtype}; float32 alone")
    net, _ = _convert(module, "", False)
    load_torch_state_dict(net, module.state_dict())
    return net


def to_module(net, module):
    """Copies the weights of a native net into a torch module of the same structure, and gives the module."""
    module.load_state_dict({name: torch.from_numpy(value) for name, value in torch_state_dict(net).items()})
    return module
