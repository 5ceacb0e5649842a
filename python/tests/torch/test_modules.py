"""torch modules as native nets with the same weights, and back."""
import numpy as np
import pytest
import torch
import torch.nn as nn
import windrow as wr


def images():
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, stride=2), nn.SiLU(),
                         nn.Flatten(), nn.Linear(24, 3))


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Dropout(0.5), nn.Linear(8, 2, bias=False)), (5, 4)),
    "nested": (lambda: nn.Sequential(nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Sequential(nn.Linear(8, 2), nn.LeakyReLU(0.2))), (5, 4)),
    "images": (images, (5, 2, 10, 10)),
    "pooled": (lambda: nn.Sequential(nn.Conv2d(2, 4, 3, bias=False), nn.GroupNorm(2, 4), nn.ELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                     nn.Linear(4, 3)), (5, 2, 6, 6)),
    "transposed": (lambda: nn.Sequential(nn.ConvTranspose2d(2, 3, 4, stride=2)), (5, 2, 4, 4)),
    "convolution in 1-d": (lambda: nn.Sequential(nn.Conv1d(2, 4, 3, dilation=2), nn.Sigmoid(), nn.Flatten(), nn.Linear(16, 3)), (5, 2, 8)),
}


def channels_last(x):
    return x.permute(0, *range(2, x.ndim), 1).contiguous() if x.ndim > 2 else x


@pytest.mark.parametrize("name", MODELS)
def test_the_native_net_computes_the_same(name):
    make, shape = MODELS[name]
    torch.manual_seed(1)
    module = make().eval()
    for b in module.buffers():
        if b.is_floating_point():
            b.uniform_(0.5, 1.5)
    net = wr.torch.from_module(module)
    x = torch.randn(shape)
    ours, theirs = wr.compile(lambda x: net(x, mode="eval"))(channels_last(x)), module(x).detach()
    np.testing.assert_allclose(np.asarray(ours), channels_last(theirs).numpy(), rtol=1e-4, atol=1e-5)


def test_trained_weights_come_back(tmp_path):
    module = images()
    net = wr.torch.from_module(module)
    sgd = wr.optim.Sgd(lr=0.1)

    @wr.compile
    def train(x, y):
        loss = wr.loss.cross_entropy(net(x), y)
        sgd.minimize(loss, net.parameters())
        return loss

    x, y = torch.randn(8, 2, 10, 10), torch.randint(0, 3, (8,))
    before = module[7].weight.detach().clone()
    train(channels_last(x), y)
    wr.nn.save_torch(tmp_path / "net.safetensors", net)
    wr.torch.to_module(net, module)
    assert not torch.equal(module[7].weight, before)
    ours = wr.compile(lambda x: net(x, mode="eval"))(channels_last(x))
    torch.testing.assert_close(torch.from_numpy(ours.numpy()), module.eval()(x).detach(), rtol=1e-4, atol=1e-5)
    file = wr.read_safetensors(str(tmp_path / "net.safetensors"))
    again = images()
    again.load_state_dict({k: torch.from_numpy(v.numpy()) for k, v in file.tensors.items()})
    assert torch.equal(again[0].weight, module[0].weight)


@pytest.mark.parametrize("module, message", [
    (nn.Sequential(nn.Linear(2, 2), nn.Bilinear(2, 2, 2)), "1: Bilinear has no counterpart"),
    (nn.Sequential(nn.Conv2d(1, 1, (3, 1))), "differs by axis"),
    (nn.Sequential(nn.GELU("tanh")), "approximate='tanh' has no counterpart"),
    (nn.Linear(2, 2).double(), "float32 alone"),
    (nn.TransformerEncoderLayer(4, 2), "windrow.torch.compile runs any module"),
], ids=["layer", "sizes", "option", "type", "forward of its own"])
def test_what_has_no_counterpart_is_named(module, message):
    with pytest.raises(wr.Error, match=message):
        wr.torch.from_module(module)
